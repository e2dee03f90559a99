// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline_schedule.hpp"

#include <algorithm>

namespace lockstep::train {

std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, int stage, int stages,
                                             std::int64_t micro_batches) {
  // A stage computes `ahead` forward passes before it alternates. With 1F1B this is the number of
  // stages after it, the time until the first gradient returns. A single stage waits for none.
  const std::int64_t ahead = schedule == PipelineSchedule::gpipe && stages > 1
                                 ? micro_batches
                                 : std::min<std::int64_t>(micro_batches, stages - 1 - stage);
  std::vector<PipelineAction> actions;
  for (std::int64_t i = 0; i < micro_batches + ahead; ++i) {
    if (i < micro_batches) actions.push_back({Pass::forward, i});
    if (i >= ahead) actions.push_back({Pass::backward, i - ahead});
  }
  return actions;
}

std::int64_t most_in_flight(const std::vector<PipelineAction>& actions) {
  std::int64_t now = 0, most = 0;
  for (const PipelineAction& action : actions) {
    now += action.pass == Pass::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace lockstep::train
