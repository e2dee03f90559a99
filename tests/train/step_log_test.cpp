// SPDX-License-Identifier: BSD-3-Clause
#include "timing/step_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "lockstep/core/process/system.hpp"
#include "lockstep/record/run_file.hpp"

namespace lockstep::train {
namespace {

TEST(StepLog, ReturnsStepsAsTheyWereGiven) {
  const auto alone = comm::make_self_communicator();
  StepLog log(*alone, 3, 1);
  for (int step = 0; step < 2; ++step) {
    const std::vector<comm::BucketTimes> buckets{{0.5 + step, 0.75 + step, 0.125 + step}};
    log.add(0.1 * (step + 1),
            {.totals = {.loss_sum = 8.0 + step, .correct = 1 + step, .images = 4},
             .seconds = {1, 2, 3, 4, 5, 6.0 + step},
             .start_seconds = 100.5 + step,
             .buckets = buckets,
             .traffic = {.sent_bytes = 100.0 + step, .received_bytes = 200.0 + step}},
            30.5 + step);
  }
  record::EpochRecord epoch;
  log.epoch_end(epoch);
  EXPECT_THAT(epoch.learning_rate, ::testing::ElementsAre(0.1, 0.2));
  EXPECT_THAT(epoch.loss, ::testing::ElementsAre(2.0, 2.25));
  EXPECT_THAT(epoch.images, ::testing::ElementsAre(4, 4));
  EXPECT_THAT(epoch.phase_seconds, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 7));
  EXPECT_THAT(epoch.bucket_end_seconds, ::testing::ElementsAre(0.75, 1.75));
  EXPECT_THAT(epoch.measurements.at("/buckets/call_seconds"), ::testing::ElementsAre(0.125, 1.125));
  EXPECT_THAT(epoch.measurements.at("/steps/start_seconds"), ::testing::ElementsAre(100.5, 101.5));
  EXPECT_THAT(epoch.measurements.at("/steps/end_seconds"), ::testing::ElementsAre(30.5, 31.5));
  EXPECT_THAT(epoch.measurements.at("/steps/sent_bytes"), ::testing::ElementsAre(100, 101));
  EXPECT_THAT(epoch.measurements.at("/steps/received_bytes"), ::testing::ElementsAre(200, 201));
  EXPECT_DOUBLE_EQ(epoch.train_loss, 17.0 / 8);
  EXPECT_DOUBLE_EQ(epoch.train_accuracy, 3.0 / 8);
}

// With 8 buckets the log takes 304 bytes per step, which is 304 MB for an epoch of a million steps
// (a million images with batch size 1).
TEST(StepLog, TakesTheEstimatedMemory) {
  constexpr StepLogSize size{.steps = 300'000, .buckets = 8, .ranks = 1};
  const auto alone = comm::make_self_communicator();
  const auto path = std::filesystem::path(::testing::TempDir()) / "lockstep-step-log.h5";
  record::RunHeader header;
  header.ranks.resize(1);
  header.bucket_sizes.assign(size.buckets, 1000);
  const auto before = core::resident_memory();
  ASSERT_LT(before.peak, before.now + 5'000'000) << "an earlier peak would hide this one";
  StepLog log(*alone, size.steps, size.buckets);
  const std::vector<comm::BucketTimes> buckets(size.buckets, {0.5, 0.75, 0.125});
  for (std::size_t step = 0; step < size.steps; ++step) {
    log.add(0.1, {.totals = {.loss_sum = 8, .images = 4}, .buckets = buckets}, 30);
  }
  const auto taken = static_cast<double>(core::resident_memory().now - before.now);
  EXPECT_NEAR(taken, double(step_log_bytes(size)), 0.1 * taken);
  {
    record::EpochRecord epoch;
    log.epoch_end(epoch);
    epoch.epoch = 1;
    record::RunFile file(path, record::OverwriteMode::replace, header);
    file.append(epoch);
    file.finish(record::RunStatus::complete);
  }
  std::filesystem::remove(path);
#ifndef __SANITIZE_ADDRESS__  // AddressSanitizer keeps freed memory in a quarantine, which raises
                              // the peak
  const auto peak = static_cast<double>(core::resident_memory().peak - before.now);
  EXPECT_NEAR(peak, double(step_log_bytes(size) + step_gather_bytes(size)), 0.15 * peak);
#endif
}

}  // namespace
}  // namespace lockstep::train
