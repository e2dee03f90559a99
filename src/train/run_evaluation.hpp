// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "checkpoint_saver.hpp"
#include "lockstep/train/context.hpp"
#include "lockstep/train/evaluation.hpp"
#include "lockstep/train/events.hpp"
#include "lockstep/train/run_summary.hpp"
#include "run_schedule.hpp"
#include "stop_agreement.hpp"

namespace lockstep::train {

/// The evaluations of a run.
class RunEvaluation {
 public:
  /// `evaluator` has a value if the options require evaluations. All arguments must outlive this
  /// object.
  RunEvaluation(const TrainingContext& context, TrainingListener& events,
                std::optional<Evaluator>& evaluator, const RunSchedule& schedule, RunState& run,
                CheckpointSaver& saver, StopAgreement& stop)
      : context_(context),
        events_(events),
        evaluator_(evaluator),
        schedule_(schedule),
        run_(run),
        saver_(saver),
        stop_(stop) {}

  /// Returns whether the options require an evaluation of the current state that has not been done
  /// yet.
  bool is_due() const {
    return schedule_.evaluates_after(run_.step) && run_.evaluated_step != run_.step;
  }

  /// Evaluates the state if that is due, and adds the results to `epoch`. If a signal has stopped
  /// the training, saves the state before; a resumed run repeats an evaluation that was not
  /// completed. Collective.
  void run(record::EpochRecord& epoch);
  /// Throws `AgreedError` (diverged) if `epoch` was evaluated and its test loss is not finite. All
  /// ranks must call this.
  void require_finite(const record::EpochRecord& epoch) const;
  /// Evaluates the resumed state if that is due: the previous process may have been killed after
  /// saving the last step of an epoch and before evaluating it. Collective.
  void run_after_resume();

  /// Adds the accuracies of the whole run, also if this process resumed it.
  void add_to(RunSummary& summary) const;

 private:
  /// Evaluates the state if that is due. Returns nothing if it is not, or if a signal has ended the
  /// evaluation. `epoch`: number of the epoch before the state. Collective.
  std::optional<CompletedEvaluation> evaluate(std::int64_t epoch, bool is_of_resumed_state);
  bool agree_to_continue();
  void require_finite(double test_loss, std::int64_t epoch) const;

  const TrainingContext& context_;
  TrainingListener& events_;
  std::optional<Evaluator>& evaluator_;
  const RunSchedule& schedule_;
  RunState& run_;
  CheckpointSaver& saver_;
  StopAgreement& stop_;
};

}  // namespace lockstep::train
