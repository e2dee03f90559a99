// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "checkpoint/checkpoints.hpp"
#include "lockstep/train/context.hpp"
#include "lockstep/train/run_description.hpp"
#include "replica.hpp"
#include "run_schedule.hpp"
#include "training_step.hpp"

namespace lockstep::train {

/// Returns the description of a run whose checkpoint was restored, without the values that depend
/// on the state of the run or on measurements. Collective: all ranks must call this.
RunDescription describe_run(const TrainingContext& context, const Replica& replica,
                            const TrainingStep& step, const RunSchedule& schedule,
                            const Checkpoints& checkpoints);

}  // namespace lockstep::train
