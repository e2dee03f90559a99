// SPDX-License-Identifier: BSD-3-Clause
#include "run_evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::train {

std::optional<CompletedEvaluation> RunEvaluation::evaluate(std::int64_t epoch,
                                                           bool is_of_resumed_state) {
  if (!is_due()) return std::nullopt;
  // The sender of the signal may kill the process during the evaluation.
  if (stop_.is_stopping()) saver_.save_and_wait();
  const double begin = core::host_seconds();
  events_.evaluation_begin();
  core::begin_activity(context_.monitor, core::Activity::evaluation, run_.step);
  const auto evaluation = evaluator_->run([this] { return agree_to_continue(); });
  if (!evaluation) return std::nullopt;  // the process that resumes the run evaluates this state
  run_.evaluated_step = run_.step;
  run_.last_correct = evaluation->correct;
  run_.best_correct = std::max(run_.best_correct, evaluation->correct);
  const CompletedEvaluation completed{.epoch = epoch,
                                      .loss = evaluation->loss(),
                                      .accuracy = evaluation->accuracy(),
                                      .seconds = core::host_seconds() - begin,
                                      .is_of_resumed_state = is_of_resumed_state};
  events_.evaluation_end(completed);
  return completed;
}

void RunEvaluation::run(record::EpochRecord& epoch) {
  const std::optional<CompletedEvaluation> evaluation = evaluate(epoch.epoch, false);
  if (!evaluation) return;
  epoch.evaluation_seconds = evaluation->seconds;
  epoch.test_loss = evaluation->loss;
  epoch.test_accuracy = evaluation->accuracy;
}

/// Saves a checkpoint when a signal arrives during an evaluation. Returns whether to continue the
/// evaluation: it may take half of the grace time. Collective.
bool RunEvaluation::agree_to_continue() {
  const bool was_stopping = stop_.is_stopping();
  if (!stop_.agree_to_stop()) return true;
  if (!was_stopping) {
    saver_.save_and_wait();
    core::begin_activity(context_.monitor, core::Activity::evaluation, run_.step);
  }
  return !stop_.agreed_excess(context_.config.checkpoint.grace_seconds / 2);
}

void RunEvaluation::require_finite(const record::EpochRecord& epoch) const {
  const bool is_evaluated = epoch.evaluation_seconds > 0;
  if (is_evaluated) require_finite(epoch.test_loss, epoch.epoch);
}

void RunEvaluation::require_finite(double test_loss, std::int64_t epoch) const {
  if (std::isfinite(test_loss)) return;
  comm::fail_together(
      context_.world, core::ExitStatus::diverged,
      fmt::format("the test loss is not finite after epoch {}; lower --lr, add --warmup-epochs, or "
                  "start from the last checkpoint with a lower rate",
                  epoch));
}

void RunEvaluation::run_after_resume() {
  const std::int64_t epoch = schedule_.epoch_after(run_.step - 1) + 1;
  if (const auto evaluation = evaluate(epoch, true)) require_finite(evaluation->loss, epoch);
}

void RunEvaluation::add_to(RunSummary& summary) const {
  if (run_.best_correct < 0) return;
  const auto images = static_cast<double>(context_.data.test->size());
  summary.best_test_accuracy = static_cast<double>(run_.best_correct) / images;
  if (run_.last_correct >= 0)
    summary.last_test_accuracy = static_cast<double>(run_.last_correct) / images;
}

}  // namespace lockstep::train
