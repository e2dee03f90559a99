// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline/pipeline_schedule.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep::train {
namespace {

using enum PipelineSchedule;

/// Returns a schedule as text: "F0 F1 B0 B1".
std::string text(PipelineSchedule schedule, int stage, int stages, std::int64_t micro_batches) {
  std::string text;
  for (const auto& [pass, micro_batch] : pipeline_actions(schedule, stage, stages, micro_batches))
    text += (pass == Pass::forward ? "F" : "B") + std::to_string(micro_batch) + " ";
  return text;
}

TEST(PipelineSchedule, GpipeComputesAllForwardPassesFirst) {
  EXPECT_EQ(text(gpipe, 0, 3, 3), "F0 F1 F2 B0 B1 B2 ");
  EXPECT_EQ(text(gpipe, 2, 3, 3), "F0 F1 F2 B0 B1 B2 ");
}

// Gradient accumulation stores the activations of one micro-batch.
TEST(PipelineSchedule, OneStageComputesEachBackwardPassAfterItsForwardPass) {
  EXPECT_EQ(text(gpipe, 0, 1, 3), "F0 B0 F1 B1 F2 B2 ");
  EXPECT_EQ(text(one_forward_one_backward, 0, 1, 3), "F0 B0 F1 B1 F2 B2 ");
}

// Figure 4 of Narayanan et al., "Efficient large-scale language model training on GPU clusters
// using Megatron-LM" (2021): 4 stages.
TEST(PipelineSchedule, OneForwardOneBackwardAlternatesAfterTheWarmUp) {
  EXPECT_EQ(text(one_forward_one_backward, 0, 4, 5), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4 ");
  EXPECT_EQ(text(one_forward_one_backward, 2, 4, 5), "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4 ");
  EXPECT_EQ(text(one_forward_one_backward, 3, 4, 5), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 ");
  EXPECT_EQ(text(one_forward_one_backward, 0, 4, 2), "F0 F1 B0 B1 ");
}

TEST(PipelineSchedule, OneForwardOneBackwardStoresAtMostOneMicroBatchPerLaterStage) {
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(most_in_flight(pipeline_actions(one_forward_one_backward, stage, 4, 16)), 4 - stage);
    EXPECT_EQ(most_in_flight(pipeline_actions(gpipe, stage, 4, 16)), 16);
    EXPECT_EQ(most_in_flight(pipeline_actions(one_forward_one_backward, stage, 4, 1)), 1);
  }
}

/// Returns the time at which the last pass ends if every pass takes one unit and a pass starts when
/// the pass of the adjacent stage on which it depends has ended.
int simulated_time(PipelineSchedule schedule, int stages, std::int64_t micro_batches) {
  std::map<std::tuple<Pass, int, std::int64_t>, int> ends;
  std::vector<std::vector<PipelineAction>> left;
  for (int stage = 0; stage < stages; ++stage) {
    left.push_back(pipeline_actions(schedule, stage, stages, micro_batches));
    std::ranges::reverse(left.back());
  }
  std::vector<int> now(static_cast<std::size_t>(stages), 0);
  for (bool progressed = true; progressed;) {
    progressed = false;
    for (int stage = 0; stage < stages; ++stage) {
      auto& actions = left[static_cast<std::size_t>(stage)];
      if (actions.empty()) continue;
      const auto [pass, micro_batch] = actions.back();
      const int before = pass == Pass::forward ? stage - 1 : stage + 1;
      int ready = 0;
      if (before >= 0 && before < stages) {
        const auto found = ends.find({pass, before, micro_batch});
        if (found == ends.end()) continue;
        ready = found->second;
      }
      int& time = now[static_cast<std::size_t>(stage)];
      time = std::max(time, ready) + 1;
      ends[{pass, stage, micro_batch}] = time;
      actions.pop_back();
      progressed = true;
    }
  }
  for (const auto& actions : left) EXPECT_TRUE(actions.empty()) << "the schedule deadlocks";
  return std::ranges::max(now);
}

TEST(PipelineSchedule, BothSchedulesHaveTheIdealBubble) {
  for (const int stages : {1, 2, 3, 5, 8}) {
    for (const std::int64_t micro_batches : {1, 2, 7, 16}) {
      for (const auto schedule : {gpipe, one_forward_one_backward}) {
        // 2 M passes of one unit, and 2 (N - 1) units of idle time
        EXPECT_EQ(simulated_time(schedule, stages, micro_batches), 2 * (micro_batches + stages - 1))
            << stages << " " << micro_batches;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::train
