// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "checkpoint/checkpoints.hpp"
#include "lockstep/train/trainer.hpp"
#include "replica.hpp"
#include "run_plan.hpp"
#include "training_step.hpp"

namespace lockstep::train {

/// Returns the description of a run whose checkpoint was restored, without the values that depend
/// on the state of the run or on instruments. Collective: all ranks must call this.
RunDescription describe_run(const TrainingContext& context, const Replica& replica,
                            const comm::GradientTransport& transport, const TrainingStep& step,
                            const RunPlan& plan, const Checkpoints& checkpoints);

/// Returns what an observer is told of the result of step `step`, counted from 1.
StepReport report_of(const StepResult& result, const RunPlan& plan, std::int64_t step);

}  // namespace lockstep::train
