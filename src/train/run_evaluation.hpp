// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "checkpoint_saver.hpp"
#include "lockstep/train/evaluation.hpp"
#include "lockstep/train/timing/summary.hpp"
#include "lockstep/train/trainer.hpp"
#include "run_plan.hpp"
#include "stop_agreement.hpp"

namespace lockstep::train {

/// The evaluations of a run.
class RunEvaluation {
 public:
  /// `evaluator` has a value if the options require evaluations. All arguments must outlive this
  /// object.
  RunEvaluation(const TrainingContext& context, Observer& observer,
                std::optional<Evaluator>& evaluator, const RunPlan& plan, RunState& run,
                CheckpointSaver& saver, StopAgreement& stop)
      : context_(context),
        observer_(observer),
        evaluator_(evaluator),
        plan_(plan),
        run_(run),
        saver_(saver),
        stop_(stop) {}

  /// Returns whether the options require an evaluation of the current state that has not been done
  /// yet.
  bool is_due() const {
    return plan_.evaluates_after(run_.step) && run_.evaluated_step != run_.step;
  }

  /// Evaluates the state if that is due, and adds the results to `epoch`. If a signal has stopped
  /// the training, saves the state before; a resumed run then repeats the evaluation. Collective.
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
  bool continues();

  const TrainingContext& context_;
  Observer& observer_;
  std::optional<Evaluator>& evaluator_;
  const RunPlan& plan_;
  RunState& run_;
  CheckpointSaver& saver_;
  StopAgreement& stop_;
};

}  // namespace lockstep::train
