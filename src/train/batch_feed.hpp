// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/data/loader.hpp"

namespace lockstep::train {

/// Provides the batches of this rank to a plan, in the order of the sampler.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;

  /// Begins epoch `epoch` at its step `first_step`, both counted from 0.
  virtual void start_epoch(std::int64_t epoch, std::size_t first_step) = 0;

  /// Blocks until the next batch is ready.
  virtual void wait() = 0;

  /// Uploads the batch that `wait` has made ready to the plan. Collective over the replicas with
  /// the reducer parameter-server.
  virtual void upload() = 0;

  /// Returns the messages of this rank in the last `upload`.
  virtual comm::Traffic traffic() const { return {}; }
};

/// Creates a feed. The threads of the data loader prepare the batches; with --data-residency
/// device, all images are stored in device memory and the device prepares the batches. With the
/// reducer parameter-server and several ranks, rank 0 prepares the batches of all ranks and sends
/// them. `images`, `sampler`, `replicas` (the data-parallel group) and `plan` must outlive the
/// feed. Throws `Error`: usage if the images cannot be stored in device memory, and like
/// `DeviceDataset::load_dataset`.
std::unique_ptr<BatchFeed> make_batch_feed(const data::DataOptions& options,
                                           comm::ReducerKind reducer, const data::Dataset& images,
                                           const data::DistributedSampler& sampler,
                                           comm::Communicator& replicas, backend::Plan& plan);

}  // namespace lockstep::train
