#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/timing/step_log_size.hpp"
#include "step_result.hpp"

namespace lockstep::train {

/// Raw measurements of the steps of one epoch on this rank, in memory that the constructor
/// allocates. Rank 0 gathers them at the end of the epoch.
class StepLog {
 public:
  StepLog(std::size_t steps, std::size_t buckets);

  void clear() { steps_ = 0; }
  std::size_t steps() const { return steps_; }

  /// `end_seconds`: time at which the result was known, on the clock of the run.
  void add(double learning_rate, const StepResult& result, double end_seconds);

  /// Returns the totals of the steps on this rank: loss, correct images and images. `gather` uses
  /// the values that the caller writes to them.
  std::array<std::span<double>, 3> totals();

  /// Returns the steps of the epoch: complete on rank 0, without the durations per rank on the
  /// other ranks. Collective: all ranks must call this.
  record::EpochRecord gather(comm::Communicator& communicator);

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
