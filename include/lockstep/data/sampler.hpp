// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/data/options.hpp"

namespace lockstep::data {

/// Returns the number of training steps in an epoch of `samples` images.
std::size_t steps_per_epoch(std::size_t samples, std::size_t global_batch, LastBatch last_batch);

/// Assigns samples to ranks. The order of an epoch is a permutation that depends only on (seed,
/// epoch) and is the same on all ranks. Position p of a global batch belongs to rank p mod ranks,
/// so the positions of the ranks are strided and disjoint.
class DistributedSampler {
 public:
  /// `global_batch`: a multiple of `ranks` and at most `samples`.
  DistributedSampler(std::size_t samples, std::size_t global_batch, int ranks, std::uint64_t seed,
                     LastBatch last_batch);

  std::size_t steps_per_epoch() const { return steps_; }
  std::size_t batch_per_rank() const { return global_batch_ / static_cast<std::size_t>(ranks_); }

  /// Returns the samples of `rank` in epoch `epoch` (counted from 0) in the order of the steps:
  /// steps_per_epoch() * batch_per_rank() sample indices.
  std::vector<std::uint32_t> epoch(std::int64_t epoch, int rank) const;

 private:
  std::size_t samples_;
  std::size_t global_batch_;
  int ranks_;
  std::uint64_t seed_;
  std::size_t steps_;
};

}  // namespace lockstep::data
