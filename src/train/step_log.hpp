#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/record/run_file.hpp"
#include "replica_policy.hpp"
#include "step_result.hpp"

namespace lockstep::train {

/// Size of the tables of one epoch.
struct StepLogSize {
  std::size_t steps = 0;
  std::size_t buckets = 0;
  std::size_t ranks = 1;
};

/// Returns the bytes of a `StepLog` of this size on each rank.
std::size_t step_log_bytes(const StepLogSize& size);

/// Returns the largest number of additional bytes that rank 0 needs to gather and write an epoch:
/// the tables of all ranks, and copies of the largest table.
std::size_t step_gather_bytes(const StepLogSize& size);

/// Raw measurements of the steps of one epoch on this rank, in memory that the constructor
/// allocates. Rank 0 gathers them at the end of the epoch.
class StepLog {
 public:
  StepLog(std::size_t steps, std::size_t buckets);

  void clear() { steps_ = 0; }
  std::size_t steps() const { return steps_; }

  /// `end_seconds`: time at which the result was known, on the clock of the run.
  void add(double learning_rate, const StepResult& result, double end_seconds);

  /// Returns the steps of the epoch: complete on rank 0, without the durations per rank on the
  /// other ranks. `replicas` makes the totals of the steps those of all replicas. Collective: all
  /// ranks must call this.
  record::EpochRecord gather(comm::Communicator& communicator, ReplicaPolicy& replicas);

 private:
  std::size_t steps_ = 0;
  std::size_t buckets_;
  std::vector<double> learning_rate_, loss_, correct_, images_;  ///< (step)
  std::vector<double> step_starts_, step_ends_;                  ///< (step)
  std::vector<double> sent_, received_;                          ///< (step)
  std::vector<double> phases_;                                   ///< (step, phase)
  std::vector<double> starts_, ends_, calls_;                    ///< (step, bucket)
};

}  // namespace lockstep::train
