#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "lockstep/core/statistics.hpp"
#include "lockstep/record/run_file.hpp"

namespace lockstep::train {

/// A run in a few numbers. What was not measured is NaN.
struct RunSummary {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  record::RunStatus status = record::RunStatus::complete;
  std::int64_t steps = 0;  ///< done by this process
  std::int64_t last_step = 0;
  bool checkpoint_saved = false;
  int stop_signal = 0;  ///< number of the signal that stopped the run; 0 if none did

  // The timed window (docs/analysis.md). A step takes as long as its slowest rank.
  std::int64_t timed_epoch = 0;    ///< from 1; 0 if no step was done
  std::int64_t timed_steps = 0;    ///< steps in the window
  std::int64_t skipped_steps = 0;  ///< steps before it in the same epoch that are left out
  std::int64_t steps_per_epoch = 0, images_per_epoch = 0;  ///< of a complete epoch
  bool epoch_complete = false;         ///< false: scaled from `timed_steps` of `steps_per_epoch`
  double images_per_second = unknown;  ///< of all ranks: images summed over seconds summed
  double step_seconds_median = unknown;
  std::optional<core::Interval> step_seconds_interval;  ///< 95 %, of the median; from 6 steps on
  double epoch_seconds = unknown;                       ///< of `images_per_epoch` images
  double training_seconds = unknown;                    ///< the same without waiting for data
  double exposed_share = unknown;  ///< exposed communication, mean over the ranks, of the epoch

  double train_loss = unknown, train_accuracy = unknown;  ///< of the last epoch
  double last_test_accuracy = unknown, best_test_accuracy = unknown, last_test_loss = unknown;
};

/// Computes the summary of one process from the records of its epochs, in their order.
class Summariser {
 public:
  /// `images_per_epoch`: images that a complete epoch trains on, over all ranks.
  Summariser(int ranks, std::int64_t steps_per_epoch, std::int64_t images_per_epoch);

  /// `epoch.epoch` counts from 1.
  void add(const record::EpochRecord& epoch);
  RunSummary summary() const;

 private:
  /// Which epoch is timed, the best last.
  enum class Rule {
    none,
    longest,         ///< no complete epoch: the longest one
    first_complete,  ///< the complete epoch that contains the process's first step
    complete,        ///< the earliest complete epoch without that step: final
  };

  Rule rule_of(const record::EpochRecord& epoch) const;
  void time(const record::EpochRecord& epoch);

  std::size_t ranks_;
  Rule rule_ = Rule::none;  ///< of the timed epoch
  std::size_t epochs_ = 0;  ///< with steps
  std::size_t length_ = 0;  ///< steps of the timed epoch
  RunSummary summary_;
};

}  // namespace lockstep::train
