// SPDX-License-Identifier: BSD-3-Clause
#include "run_evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::train {

void RunEvaluation::run(record::EpochRecord& epoch) {
  if (!is_due()) return;
  // The sender of the signal may kill the process during the evaluation.
  if (stop_.is_stopping()) saver_.save_and_wait();
  const double begin = core::host_seconds();
  if (context_.world.rank() == 0) observer_.evaluating();
  core::begin_activity(context_.monitor, core::Activity::evaluation, run_.step);
  const auto evaluation = evaluator_->run([this] { return continues(); });
  if (!evaluation) return;  // the process that resumes the run evaluates this state
  epoch.evaluation_seconds = core::host_seconds() - begin;
  epoch.test_loss = evaluation->loss();
  epoch.test_accuracy = evaluation->accuracy();
  run_.evaluated_step = run_.step;
  run_.last_correct = evaluation->correct;
  run_.best_correct = std::max(run_.best_correct, evaluation->correct);
}

/// Saves a checkpoint when a signal arrives during an evaluation. Returns whether to continue the
/// evaluation: it may take half of the grace time. Collective.
bool RunEvaluation::continues() {
  const bool was_stopping = stop_.is_stopping();
  if (!stop_.check()) return true;
  if (!was_stopping) {
    saver_.save_and_wait();
    core::begin_activity(context_.monitor, core::Activity::evaluation, run_.step);
  }
  return !stop_.excessive_seconds(context_.config.checkpoint.grace_seconds / 2);
}

void RunEvaluation::require_finite(const record::EpochRecord& epoch) const {
  const bool is_evaluated = epoch.evaluation_seconds > 0;
  if (!is_evaluated || std::isfinite(epoch.test_loss)) return;
  comm::fail_together(
      context_.world, core::ExitStatus::diverged,
      fmt::format("the test loss is not finite after epoch {}; lower --lr, add --warmup-epochs, or "
                  "start from the last checkpoint with a lower rate",
                  epoch.epoch));
}

void RunEvaluation::run_after_resume() {
  if (!is_due()) return;
  record::EpochRecord epoch;
  epoch.epoch = plan_.epoch_after(run_.step - 1) + 1;
  run(epoch);
  if (!is_due() && context_.world.rank() == 0) observer_.resumed_state_evaluated(epoch);
  require_finite(epoch);
}

void RunEvaluation::add_to(RunSummary& summary) const {
  if (run_.best_correct < 0) return;
  const auto images = static_cast<double>(context_.data.test->size());
  summary.best_test_accuracy = static_cast<double>(run_.best_correct) / images;
  if (run_.last_correct >= 0)
    summary.last_test_accuracy = static_cast<double>(run_.last_correct) / images;
}

}  // namespace lockstep::train
