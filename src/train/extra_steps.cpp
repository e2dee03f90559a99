// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/extra_steps.hpp"

#include "lockstep/core/error.hpp"
#include "lockstep/core/process/stop_signal.hpp"
#include "replica.hpp"
#include "training_step.hpp"

namespace lockstep::train {

ExtraSteps::ExtraSteps(Replica& replica, TrainingStep& step, std::int64_t epoch,
                       std::int64_t steps_per_epoch, std::int64_t last_step)
    : replica_(replica),
      step_(step),
      epoch_(epoch),
      steps_per_epoch_(steps_per_epoch),
      last_step_(last_step) {
  replica_.feed->start_epoch(epoch_, 0);
}

ExtraStep ExtraSteps::run() {
  if (step_of_epoch_ == steps_per_epoch_) {
    replica_.feed->start_epoch(++epoch_, 0);
    step_of_epoch_ = 0;
  }
  ++step_of_epoch_;
  ++last_step_;
  // Without momentum, because the velocity of LARS contains the learning rates of earlier steps.
  step_.start(last_step_, {.learning_rate = 0, .momentum = 0});
  const StepResult result = step_.collect(last_step_, {.stop = core::StopSignal::requested()});
  return {result.seconds, result.buckets, result.totals.requests.stop};
}

void ExtraSteps::swap_captured() { step_.swap_captured(); }
void ExtraSteps::capture() { step_.capture(); }
int ExtraSteps::depth() const { return step_.depth(); }
const backend::Plan& ExtraSteps::plan() const { return *replica_.plan; }
const comm::GradientReducer& ExtraSteps::reducer() const { return step_.reducer(); }

OperationClock& ExtraSteps::operations() const {
  core::check(replica_.operations != nullptr, "a step is profiled only if its plan has a listener");
  return *replica_.operations;
}

}  // namespace lockstep::train
