// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/core/image.hpp"
#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Returns the number of training steps in an epoch of `samples` images.
std::size_t steps_per_epoch(std::size_t samples, std::size_t global_batch, LastBatch last_batch);

/// Returns the images of each of `ranks` ranks in a step. Throws `Error` (internal) unless `ranks`
/// divides the global batch.
std::int64_t batch_per_rank(std::int64_t global_batch, int ranks);

/// Assigns samples to ranks. The order of an epoch is a permutation that depends only on (seed,
/// epoch) and is the same on all ranks. Position p of a global batch belongs to rank p mod ranks,
/// so the positions of the ranks are strided and disjoint.
class DistributedSampler {
 public:
  /// `global_batch`: a multiple of `ranks` and at most `samples`.
  DistributedSampler(std::size_t samples, std::size_t global_batch, int ranks, std::uint64_t seed,
                     LastBatch last_batch);

  std::size_t steps_per_epoch() const { return steps_; }
  std::size_t batch_per_rank() const { return batch_per_rank_; }

  /// Returns the samples of `rank` in epoch `epoch` (counted from 0) in the order of the steps:
  /// steps_per_epoch() * batch_per_rank() sample indices.
  std::vector<std::uint32_t> epoch(std::int64_t epoch, int rank) const;

 private:
  std::size_t samples_;
  std::size_t global_batch_;
  int ranks_;
  std::size_t batch_per_rank_;
  std::uint64_t seed_;
  std::size_t steps_;
};

/// Returns the random crop and flip of one image. The result depends only on the arguments, not on
/// ranks, threads or restarts.
core::CropFlip choose_crop(Augmentation augmentation, std::uint64_t seed, std::int64_t epoch,
                           std::uint32_t sample);

/// Applies the crop and flip that `choose_crop` returns to image `from` and writes the result to
/// `to`. Both have the shape (channels, height, width) and must not overlap. Throws `Error`
/// (internal) if their sizes differ from `shape`.
void augment(Augmentation augmentation, core::ImageShape shape, std::span<const std::uint8_t> from,
             std::span<std::uint8_t> to, std::uint64_t seed, std::int64_t epoch,
             std::uint32_t sample);

/// Mini-batch of one rank. Its members are views into the loader's memory, valid until the next
/// call of `next` or `start_epoch`.
struct Batch {
  std::span<const std::uint8_t> images;  ///< (batch, channels, height, width)
  std::span<const std::int32_t> labels;  ///< (batch)
};

/// Prefetches the batches of this rank in background threads. The order of the samples is that of
/// the sampler and does not depend on the number of threads. After the first `start_epoch`, the
/// only memory it allocates is the sample order of each epoch. `dataset` must outlive the loader
/// and contain all samples of the sampler.
class DataLoader {
 public:
  DataLoader(const Dataset& dataset, const DistributedSampler& sampler, int rank,
             const DataOptions& options);
  ~DataLoader();

  /// Begins epoch `epoch` at step `first_step` of the epoch (both counted from 0) and starts to
  /// prefetch its batches.
  void start_epoch(std::int64_t epoch, std::size_t first_step = 0);

  /// Returns the next batch of the epoch; blocks until it is ready. Throws `Error` (internal) if
  /// the epoch has no further batch.
  Batch next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
