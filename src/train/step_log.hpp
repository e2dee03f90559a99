#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/record/phase.hpp"
#include "lockstep/record/run_file.hpp"
#include "step_sums.hpp"

namespace lockstep::train {

/// Size of the tables of one epoch.
struct StepLogSize {
  std::size_t steps = 0;
  std::size_t buckets = 0;
  std::size_t ranks = 1;
};

/// Bytes that a `StepLog` of this size takes on each rank.
std::size_t step_log_bytes(const StepLogSize& size);

/// Most bytes that rank 0 takes in addition while it gathers and writes the epoch: the tables of
/// all ranks, and copies of the largest one.
std::size_t step_gather_bytes(const StepLogSize& size);

/// The raw numbers of one epoch's steps on this rank, in memory allocated by the constructor;
/// gathered on rank 0 at the epoch's end.
class StepLog {
 public:
  StepLog(std::size_t steps, std::size_t buckets);

  void clear() { steps_ = 0; }
  std::size_t steps() const { return steps_; }

  void add(double learning_rate, const StepTotals& totals, const record::PhaseSeconds& phases,
           std::span<const comm::BucketTimes> buckets);

  /// The epoch's steps: complete on rank 0, without seconds per rank elsewhere. `is_independent`:
  /// the totals are each rank's own and are added up here. Collective.
  record::EpochRecord gather(comm::Communicator& communicator, bool is_independent);

 private:
  std::size_t steps_ = 0;
  std::size_t buckets_;
  std::vector<double> learning_rate_, loss_, correct_, images_;  ///< (step)
  std::vector<double> phases_;                                   ///< (step, phase)
  std::vector<double> starts_, ends_;                            ///< (step, bucket)
};

}  // namespace lockstep::train
