// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/record/run_records.hpp"
#include "lockstep/train/events.hpp"
#include "lockstep/train/step_result.hpp"
#include "lockstep/train/timing/step_log_size.hpp"

namespace lockstep::train {

/// Raw measurements of the steps of one epoch on this rank, in memory that the constructor
/// allocates. Rank 0 gathers them at the end of the epoch.
class StepLog final : public TrainingListener {
 public:
  /// Columns of a step, with one value each. Rank 0 does not gather them.
  enum Own : std::size_t { rate, loss, correct, images };
  static constexpr std::size_t own_columns = 4;
  /// Columns of each rank, which rank 0 gathers.
  enum Gathered : std::size_t {
    phase_seconds,
    start_seconds,
    end_seconds,
    sent_bytes,
    received_bytes,
    bucket_start_seconds,
    bucket_end_seconds,
    bucket_call_seconds,
  };
  static constexpr std::size_t gathered_columns = 8;

  /// `buckets`: number of buckets whose times are recorded. `independent_replicas`: the group of
  /// ranks over which the results of the steps are summed at the end of an epoch; null if the
  /// results are those of all replicas already. The communicators must outlive the log.
  StepLog(comm::Communicator& communicator, std::size_t steps, std::size_t buckets,
          comm::Communicator* independent_replicas = nullptr);

  void run_begin(double origin) override { origin_ = origin; }
  void epoch_begin() override { steps_ = 0; }
  void step_end(const CompletedStep& step, const StepResult& result) override;
  /// Adds the steps of the epoch, on ranks other than 0 without the durations per rank. Collective:
  /// all ranks must call this.
  void epoch_end(record::EpochRecord& epoch) override;

  /// Adds a step. `end`: time in seconds at which the result was known, on the clock of the run.
  void add(double learning_rate, const StepResult& result, double end);

 private:
  /// Returns the values of the current step.
  std::span<double> row(Gathered column);

  comm::Communicator& communicator_;
  comm::Communicator* independent_replicas_;  ///< null if the replicas are synchronous
  double origin_ = 0;                         ///< of the clock of the run
  std::size_t steps_ = 0;
  std::size_t buckets_;
  std::array<std::vector<double>, own_columns> own_;            ///< (step)
  std::array<std::vector<double>, gathered_columns> gathered_;  ///< (step, value)
};

}  // namespace lockstep::train
