// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "instrument.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/timing/step_log_size.hpp"

namespace lockstep::train {

/// Requests that take effect after a step or an epoch.
struct StepRequests {
  bool stop = false;  ///< a signal was received
  bool save = false;  ///< a checkpoint is due
};

/// Results of a step over all replicas, and the requests of any rank; if the replicas are
/// independent, the results of this replica alone, and no requests.
struct StepTotals {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t images = 0;
  StepRequests requests{};
};

/// Measurements of a completed step.
struct StepResult {
  StepTotals totals;
  record::PhaseSeconds seconds{};                ///< of each phase on this rank
  double start_seconds = 0;                      ///< see `core::Timeline::start_seconds`
  std::span<const comm::BucketTimes> buckets{};  ///< valid until the next step is collected
  comm::Traffic traffic{};                       ///< messages of this rank
};

/// Raw measurements of the steps of one epoch on this rank, in memory that the constructor
/// allocates. Rank 0 gathers them at the end of the epoch.
class StepLog final : public Instrument {
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

  /// `buckets`: number of buckets whose times are recorded. `communicator` must outlive the log.
  StepLog(comm::Communicator& communicator, std::size_t steps, std::size_t buckets);

  void begin_epoch() override { steps_ = 0; }
  std::size_t steps() const { return steps_; }

  /// `end`: time in seconds at which the result was known, on the clock of the run.
  void add(double learning_rate, const StepResult& result, double end);

  /// Returns the totals of the steps on this rank: loss, correct images and images. `add_to` uses
  /// the values that the caller writes to them.
  std::array<std::span<double>, 3> totals();

  /// Adds the steps of the epoch, on ranks other than 0 without the durations per rank. Collective:
  /// all ranks must call this.
  void add_to(record::EpochRecord& epoch) override;

 private:
  /// Returns the values of the current step.
  std::span<double> row(Gathered column);

  comm::Communicator& communicator_;
  std::size_t steps_ = 0;
  std::size_t buckets_;
  std::array<std::vector<double>, own_columns> own_;            ///< (step)
  std::array<std::vector<double>, gathered_columns> gathered_;  ///< (step, value)
};

}  // namespace lockstep::train
