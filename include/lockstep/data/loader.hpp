#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/core/crop_flip.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/data/sampler.hpp"

namespace lockstep::data {

enum class Augmentation {
  none,
  crop_flip,  ///< pad by 4 with zeros, crop at a random place, mirror with probability 1/2
};

/// How one image is cropped: a function of (seed, epoch, sample) alone, so the result does not
/// depend on ranks, threads or restarts.
core::CropFlip choose_crop(Augmentation augmentation, std::uint64_t seed, std::int64_t epoch,
                           std::uint32_t sample);

/// Writes one augmented image to `to`, as `choose_crop` says. `from` and `to`: channels x height x
/// width, not overlapping.
void augment(Augmentation augmentation, core::ImageShape shape, std::span<const std::uint8_t> from,
             std::span<std::uint8_t> to, std::uint64_t seed, std::int64_t epoch,
             std::uint32_t sample);

/// A mini-batch of one rank; views into the loader's memory, valid until the next call of `next` or
/// `start_epoch`.
struct Batch {
  std::span<const std::uint8_t> images;  ///< (batch, channels, height, width)
  std::span<const std::int32_t> labels;  ///< (batch)
};

struct LoaderOptions {
  std::size_t batch_per_rank = 0;
  int rank = 0;
  int threads = 2;  ///< that prepare batches; 0: prepared in `next`
  Augmentation augmentation = Augmentation::crop_flip;
  std::uint64_t seed = 1;
};

/// Prepares this rank's batches ahead of the training step, in the sampler's order whatever the
/// number of threads. After the first epoch has begun it allocates nothing but each epoch's
/// permutation.
class DataLoader {
 public:
  DataLoader(const Dataset& dataset, const DistributedSampler& sampler,
             const LoaderOptions& options);
  ~DataLoader();

  /// Begins epoch `epoch` at its step `first_step` (both from 0); batches become ready in the
  /// background.
  void start_epoch(std::int64_t epoch, std::size_t first_step = 0);

  /// The epoch's next batch; waits until it is ready. Throws what a preparing thread threw.
  Batch next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
