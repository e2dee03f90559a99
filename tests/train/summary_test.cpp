// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/timing/summary.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/record/run_records.hpp"

namespace lockstep::train {
namespace {

/// Returns epoch `number` with `steps` steps on two ranks. Each phase takes `seconds` seconds on
/// rank 0 and twice as long on rank 1.
record::EpochRecord epoch_of(std::int64_t number, double seconds, std::size_t steps) {
  record::EpochRecord epoch;
  epoch.epoch = number;
  for (std::size_t step = 0; step < steps; ++step) {
    epoch.loss.push_back(1);
    epoch.images.push_back(24);
    for (const double factor : {1.0, 2.0}) {
      for (std::size_t phase = 0; phase < record::phase_count; ++phase) {
        epoch.phase_seconds.push_back(factor * seconds);
      }
    }
  }
  epoch.test_accuracy = number == 1 ? 0.5 : 0.25;
  return epoch;
}

TEST(Summary, ReportsTheSecondEpochByTheSlowestRank) {
  Summariser summariser(2, 4, 96);
  summariser.add(epoch_of(1, 100, 4));
  summariser.add(epoch_of(2, 1, 4));
  summariser.add(epoch_of(3, 50, 4));
  const RunSummary summary = summariser.summary();
  EXPECT_EQ(summary.steps, 12);
  EXPECT_EQ(summary.timed_epoch, 2);
  EXPECT_EQ(summary.skipped_steps, 0);
  EXPECT_TRUE(summary.epoch_complete);
  EXPECT_DOUBLE_EQ(summary.epoch_seconds, 4 * 6 * 2.0);
  EXPECT_DOUBLE_EQ(summary.training_seconds, 4 * 5 * 2.0);
  EXPECT_DOUBLE_EQ(summary.images_per_second, 24 / 12.0);
  // The exposed communication takes 1 s and 2 s on the two ranks; the step takes 12 s on the slower
  // rank.
  EXPECT_DOUBLE_EQ(summary.exposed_share, 1.5 / 12);
  EXPECT_EQ(summary.last_test_accuracy, 0.25);
  EXPECT_EQ(summary.best_test_accuracy, 0.5);
}

// Two ranks that are late in turn and wait for each other: a step takes 5 s on both clocks, the
// last one the sum of its phases on the slower rank, 12 s.
TEST(Summary, AStepEndsWithTheStartOfTheNext) {
  record::EpochRecord epoch = epoch_of(1, 1, 4);
  epoch.measurements["/steps/start_seconds"] = {0, 7, 5, 12, 10, 17, 15, 22};
  Summariser summariser(2, 4, 96);  // the first step is not timed
  summariser.add(epoch);
  EXPECT_DOUBLE_EQ(summariser.summary().epoch_seconds, 4.0 / 3 * (5 + 5 + 12));
  EXPECT_DOUBLE_EQ(summariser.summary().training_seconds, 4.0 / 3 * (5 + 5 + 12 - 3 * 2));
}

TEST(Summary, ReportsTheRankThatLackedAProcessorForLongest) {
  record::EpochRecord epoch = epoch_of(1, 1, 4);
  epoch.seconds = 40;
  const auto lacking = [&] {
    Summariser summariser(2, 4, 96);
    summariser.add(epoch);
    return summariser.summary();
  };
  EXPECT_TRUE(std::isnan(lacking().lacking_share));
  epoch.measurements["/epochs/run_delay_seconds"] = {2, 10};
  EXPECT_DOUBLE_EQ(lacking().lacking_share, 0.25);
  EXPECT_EQ(lacking().lacking_rank, 1);
  epoch.measurements["/epochs/processor_steal_seconds"] = {30, 0};
  epoch.measurements["/epochs/processor_busy_seconds"] = {70, 90};
  EXPECT_DOUBLE_EQ(lacking().lacking_share, 0.3);
  EXPECT_EQ(lacking().lacking_rank, 0);
}

TEST(Summary, LeavesTheFirstStepsOfASingleEpochOut) {
  record::EpochRecord epoch = epoch_of(1, 1, 8);
  for (std::size_t i = 0; i < 2 * record::phase_count; ++i) epoch.phase_seconds[i] = 1000;
  Summariser summariser(2, 8, 192);
  summariser.add(epoch);
  const RunSummary summary = summariser.summary();
  EXPECT_EQ(summary.timed_steps, 7);
  EXPECT_EQ(summary.skipped_steps, 1);
  EXPECT_TRUE(summary.epoch_complete);
  EXPECT_DOUBLE_EQ(summary.images_per_second, 2.0);
  EXPECT_DOUBLE_EQ(summary.epoch_seconds, 8 * 12.0) << "scaled to the images of the epoch";
}

TEST(Summary, ScalesTheLongestEpochIfNoneIsComplete) {
  Summariser summariser(2, 100, 2400);
  summariser.add(epoch_of(3, 1, 3));
  summariser.add(epoch_of(4, 2, 30));
  summariser.add(epoch_of(5, 3, 30));
  const RunSummary summary = summariser.summary();
  EXPECT_EQ(summary.timed_epoch, 4);
  EXPECT_EQ(summary.timed_steps, 27);
  EXPECT_FALSE(summary.epoch_complete);
  EXPECT_DOUBLE_EQ(summary.epoch_seconds, 100 * 24.0);
}

TEST(Summary, PrefersAnyCompleteEpochToALongIncompleteOne) {
  Summariser summariser(2, 4, 96);
  summariser.add(epoch_of(1, 1, 3));
  summariser.add(epoch_of(2, 2, 4));
  const RunSummary summary = summariser.summary();
  EXPECT_EQ(summary.timed_epoch, 2);
  EXPECT_EQ(summary.timed_steps, 4);
}

TEST(Summary, TimesTheOnlyStepOfARun) {
  Summariser summariser(2, 4, 96);
  summariser.add(epoch_of(1, 1, 1));
  EXPECT_EQ(summariser.summary().timed_steps, 1);
  EXPECT_DOUBLE_EQ(summariser.summary().epoch_seconds, 4 * 12.0);
}

}  // namespace
}  // namespace lockstep::train
