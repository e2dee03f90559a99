// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <limits>

#include "lockstep/record/run_file.hpp"

namespace lockstep::train {

/// Summary of a run. Values that were not measured are NaN.
struct RunSummary {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  record::RunStatus status = record::RunStatus::complete;
  std::int64_t steps = 0;  ///< completed by this process
  std::int64_t last_step = 0;
  bool checkpoint_saved = false;  ///< of `last_step`
  std::int64_t kept_step = -1;    ///< step of the newest checkpoint; -1: none. Valid on rank 0
  /// Time from the signal to the end of the save that the grace time did not permit; 0 without one.
  double refused_save_seconds = 0;
  int stop_signal = 0;  ///< number of the signal that stopped the run; 0 if none did
  std::uint64_t peak_memory_bytes = 0;  ///< peak resident memory of this process

  // Timed window (docs/analysis.md). The time of a step is that of the rank that takes longest.
  std::int64_t timed_epoch = 0;    ///< counted from 1; 0 if no step was completed
  std::int64_t timed_steps = 0;    ///< steps in the window
  std::int64_t skipped_steps = 0;  ///< excluded steps of the epoch before the window
  std::int64_t steps_per_epoch = 0, images_per_epoch = 0;  ///< of a complete epoch
  bool epoch_complete = false;  ///< false: times are scaled from `timed_steps` to `steps_per_epoch`
  double images_per_second = unknown;  ///< of all ranks: sum of images / sum of step times
  double epoch_seconds = unknown;      ///< of `images_per_epoch` images
  double training_seconds = unknown;   ///< epoch time without waiting for data
  double exposed_share = unknown;      ///< exposed communication / epoch time, mean over ranks
  /// Share of the timed epoch for which a rank lacked a processor, maximum over ranks, and that
  /// rank: the run delay, or the share of its processors that a hypervisor withheld.
  double lacking_share = unknown;
  int lacking_rank = 0;

  double train_loss = unknown, train_accuracy = unknown;  ///< of the last epoch
  double last_test_accuracy = unknown, best_test_accuracy = unknown, last_test_loss = unknown;
};

}  // namespace lockstep::train
