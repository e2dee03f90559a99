// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/train/config.hpp"

namespace lockstep::train {

enum class Pass { forward, backward };

/// A pass of one micro-batch on one stage.
struct PipelineAction {
  Pass pass = Pass::forward;
  std::int64_t micro_batch = 0;

  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

/// Returns the passes of `stage` in a training step, in their order. Both schedules compute the
/// backward passes in the order of the micro-batches, so they sum gradients in the same order. With
/// one stage, each backward pass follows its forward pass (gradient accumulation).
std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, int stage, int stages,
                                             std::int64_t micro_batches);

/// Returns the largest number of micro-batches between their forward and their backward pass.
std::int64_t most_in_flight(const std::vector<PipelineAction>& actions);

}  // namespace lockstep::train
