#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::data {

enum class LastBatch {
  drop,  ///< a last global batch that is not full is left out
  pad,   ///< it is filled with samples from the start of the epoch's order
};

/// Steps in which an epoch trains on `samples` images.
std::size_t steps_per_epoch(std::size_t samples, std::size_t global_batch, LastBatch last_batch);

/// Which samples each rank trains on. The order of an epoch is a permutation that depends on (seed,
/// epoch) alone, the same on all ranks; position p of a global batch belongs to rank p mod ranks
/// (strided, disjoint).
class DistributedSampler {
 public:
  /// Throws `Error`: usage where the global batch is not a multiple of the ranks, input where there
  /// are fewer samples than one global batch.
  DistributedSampler(std::size_t samples, std::size_t global_batch, int ranks, std::uint64_t seed,
                     LastBatch last_batch);

  std::size_t steps_per_epoch() const { return steps_; }
  std::size_t batch_per_rank() const { return global_batch_ / static_cast<std::size_t>(ranks_); }
  int ranks() const { return ranks_; }

  /// Samples of `rank` in epoch `epoch` (counted from 0), step after step: steps_per_epoch() times
  /// global_batch / ranks of them.
  std::vector<std::uint32_t> epoch(std::int64_t epoch, int rank) const;

 private:
  std::size_t samples_;
  std::size_t global_batch_;
  int ranks_;
  std::uint64_t seed_;
  std::size_t steps_;
};

}  // namespace lockstep::data
