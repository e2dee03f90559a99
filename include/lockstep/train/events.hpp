// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "lockstep/record/run_records.hpp"
#include "lockstep/train/run_summary.hpp"
#include "lockstep/train/step_result.hpp"

namespace lockstep::train {

/// A step of the run whose results are known. With `--reducer none`, `loss` and `images` are those
/// of this rank alone.
struct CompletedStep {
  std::int64_t step = 0;  ///< step of the run, counted from 1
  std::int64_t total_steps = 0;
  std::int64_t epoch = 0;          ///< counted from 1
  std::int64_t step_of_epoch = 0;  ///< counted from 1
  std::int64_t steps_per_epoch = 0;
  double learning_rate = 0;
  double loss = 0;  ///< mean over the global batch
  std::int64_t images = 0;
  double seconds = 0;  ///< duration of the step on this rank
};

/// An evaluation that was completed.
struct CompletedEvaluation {
  std::int64_t epoch = 0;  ///< last epoch of the training that was evaluated, counted from 1
  double loss = 0;         ///< mean over the test set
  double accuracy = 0;
  double seconds = 0;
  /// The state was trained before the resume, by an earlier process of the run, which did not
  /// evaluate it. No epoch of this process contains the result.
  bool is_of_resumed_state = false;
};

/// Listener of the events of a run. A run has these events, each of them on all ranks in the same
/// order, so that the handlers of the trainer may be collective, except for `step_end`. The
/// listener that a user gives to the `Trainer` is notified on rank 0 only and must not communicate:
///
///     run_begin
///       evaluation_begin, evaluation_end      if the resumed state was not evaluated before
///       for each epoch:
///         epoch_begin
///         step_end                            for each step
///         last_step_end
///         evaluation_begin, evaluation_end    if an evaluation is due
///         epoch_end
///     run_end
///
/// A run that fails ends without further events. A signal may end an evaluation without
/// `evaluation_end`. No step is in flight in the events other than `step_end`.
class TrainingListener {
 public:
  virtual ~TrainingListener() = default;
  TrainingListener() = default;
  TrainingListener(const TrainingListener&) = delete;
  TrainingListener& operator=(const TrainingListener&) = delete;

  /// `origin`: origin of the clock of the run, a time of `core::host_seconds`, about the same on
  /// all ranks.
  virtual void run_begin([[maybe_unused]] double origin) {}
  /// Called before the first step of an epoch. After it, all ranks start the epoch at the same
  /// time.
  virtual void epoch_begin() {}
  /// Called after each step while the next one may be in flight. Must not be collective.
  /// `result`: the measurements of this rank.
  virtual void step_end(const CompletedStep&, [[maybe_unused]] const StepResult& result) {}
  /// Called after the last step of an epoch; measurements of the steps end here, so that they
  /// contain no evaluation. The list of listeners is notified in reverse order: a listener that was
  /// the last to begin its measurement is the first to end it. `epoch` has the number of the epoch
  /// and its duration, from which this event may subtract what was no training.
  virtual void last_step_end([[maybe_unused]] record::EpochRecord& epoch) {}
  virtual void evaluation_begin() {}
  virtual void evaluation_end(const CompletedEvaluation&) {}
  /// Adds the measurements of the epoch to `epoch`, which is complete on rank 0 after all listeners
  /// of the trainer; it then has the results of the evaluation, too.
  virtual void epoch_end([[maybe_unused]] record::EpochRecord& epoch) {}
  /// Adds what was measured over the run to `summary`, which states whether the last checkpoint is
  /// saved.
  virtual void run_end([[maybe_unused]] RunSummary& summary) {}
};

}  // namespace lockstep::train
