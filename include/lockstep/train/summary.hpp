#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "lockstep/record/run_file.hpp"

namespace lockstep::train {

/// A run in a few numbers. What was not measured is NaN.
struct RunSummary {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  record::RunStatus status = record::RunStatus::complete;
  std::int64_t steps = 0;  ///< done by this process
  std::int64_t last_step = 0;
  bool checkpoint_saved = false;

  // throughput after the warm-up: images summed / seconds summed; a step takes as long as its
  // slowest rank
  double images_per_second = unknown;         ///< of all ranks together
  double images_per_second_spread = unknown;  ///< 1.96 standard deviations of the steps' rates
  std::int64_t timed_steps = 0;

  // the epoch that is reported: the second where there is one, else the first
  std::int64_t timed_epoch = 0;
  double epoch_seconds = unknown;     ///< all steps, slowest rank of each
  double training_seconds = unknown;  ///< the same without waiting for data
  double exposed_share = unknown;     ///< of the time of all ranks' steps, in that epoch
  bool epoch_complete = false;

  double train_loss = unknown, train_accuracy = unknown;  ///< of the last epoch
  double last_test_accuracy = unknown, best_test_accuracy = unknown, last_test_loss = unknown;
};

/// Draws the summary from the epochs' records as they come.
class Summariser {
 public:
  Summariser(int ranks, std::int64_t steps_per_epoch)
      : ranks_(static_cast<std::size_t>(ranks)), steps_per_epoch_(steps_per_epoch) {}

  /// `epoch.epoch` counts from 1.
  void add(const record::EpochRecord& epoch);
  RunSummary summary() const;

 private:
  std::size_t ranks_;
  std::int64_t steps_per_epoch_;
  std::int64_t epochs_ = 0;
  std::vector<double> step_seconds_, step_images_;  ///< of the reported epoch
  RunSummary summary_;
};

}  // namespace lockstep::train
