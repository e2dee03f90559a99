#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/backend/backend.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/data/sampler.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// This rank's batches, in the sampler's order.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;

  /// Begins epoch `epoch` at its step `first_step` (both from 0).
  virtual void start_epoch(std::int64_t epoch, std::size_t first_step) = 0;

  /// Waits until the next batch is ready.
  virtual void wait() = 0;

  /// Brings the batch that was waited for into the plan.
  virtual void upload() = 0;
};

/// Images prepared by the loader's threads, or, where the configuration says so, kept by the
/// device, which then prepares them itself. `plan` outlives the feed. Throws `Error` as
/// `Plan::keep`.
std::unique_ptr<BatchFeed> make_batch_feed(const Config& config, const data::Dataset& images,
                                           const data::DistributedSampler& sampler, int rank,
                                           backend::Plan& plan);

}  // namespace lockstep::train
