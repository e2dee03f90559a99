// Tests the parts of the trainer that need only one rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "lockstep/core/error.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/train/summary.hpp"
#include "replica_hash.hpp"
#include "replica_policy.hpp"
#include "step_clock.hpp"
#include "step_log.hpp"
#include "stop_signal.hpp"

namespace lockstep::train {
namespace {

TEST(Hash, ChangesWithAnyBitAndAnyOrder) {
  std::vector<float> values(100, 1.0f);
  const std::string before = hash_of(values);
  EXPECT_EQ(before.size(), 16u);
  values[57] = std::nextafter(1.0f, 2.0f);
  const std::string after = hash_of(values);
  EXPECT_NE(before, after);
  std::swap(values[57], values[58]);
  EXPECT_NE(after, hash_of(values));
  EXPECT_NE(hash_of(std::vector{0.0f}), hash_of(std::vector{-0.0f}));
}

TEST(StopSignal, RemembersASignalAndGivesHandlersBack) {
  auto* const before = std::signal(SIGUSR1, SIG_IGN);
  {
    StopSignal stop;
    EXPECT_FALSE(stop.requested());
    std::raise(SIGUSR1);
    EXPECT_TRUE(stop.requested());
  }
  EXPECT_EQ(std::signal(SIGUSR1, before), SIG_IGN);
  const StopSignal next;
  EXPECT_FALSE(next.requested());
}

TEST(StepLog, ReturnsStepsAsTheyWereGiven) {
  const auto alone = comm::make_self_communicator();
  const auto replicas = make_replica_policy(comm::ReducerKind::overlap, *alone);
  StepLog log(3, 1);
  for (int step = 0; step < 2; ++step) {
    const std::vector<comm::BucketTimes> buckets{{0.5 + step, 0.75 + step}};
    log.add(0.1 * (step + 1), {.loss_sum = 8.0 + step, .correct = 1 + step, .images = 4},
            {1, 2, 3, 4, 5, 6.0 + step}, buckets);
  }
  const record::EpochRecord epoch = log.gather(*alone, *replicas);
  EXPECT_THAT(epoch.learning_rate, ::testing::ElementsAre(0.1, 0.2));
  EXPECT_THAT(epoch.loss, ::testing::ElementsAre(2.0, 2.25));
  EXPECT_THAT(epoch.images, ::testing::ElementsAre(4, 4));
  EXPECT_THAT(epoch.phase_seconds, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 7));
  EXPECT_THAT(epoch.bucket_end_seconds, ::testing::ElementsAre(0.75, 1.75));
  EXPECT_DOUBLE_EQ(epoch.train_loss, 17.0 / 8);
  EXPECT_DOUBLE_EQ(epoch.train_accuracy, 3.0 / 8);
  EXPECT_TRUE(std::isnan(epoch.test_accuracy));
}

TEST(StepClock, ReservesTimestampsForEveryBucket) {
  for (const std::size_t buckets : {0, 1, 2, 600, 3000}) {
    core::HostTimeline timeline;
    StepClock clock(timeline, nullptr, buckets);
    clock.begin(1);
    clock.end(record::Phase::data_wait);
    clock.end(record::Phase::upload);
    clock.begin_work();
    clock.end(record::Phase::forward);
    clock.end(record::Phase::backward);
    for (std::size_t bucket = 0; bucket < std::max<std::size_t>(buckets, 1); ++bucket) {
      clock.end(record::Phase::exposed_communication);
      clock.end(record::Phase::update);
    }
    clock.end(record::Phase::exposed_communication);
    EXPECT_THROW(clock.end(record::Phase::update), core::Error) << buckets;
  }
}

// With 8 buckets the log takes 208 bytes per step, which is 208 MB for an epoch of a million steps
// (a million images with batch size 1).
TEST(StepLog, TakesTheEstimatedMemory) {
  constexpr StepLogSize size{.steps = 300'000, .buckets = 8, .ranks = 1};
  const auto alone = comm::make_self_communicator();
  const auto replicas = make_replica_policy(comm::ReducerKind::overlap, *alone);
  const auto path = std::filesystem::path(::testing::TempDir()) / "lockstep-step-log.h5";
  record::RunHeader header;
  header.ranks.resize(1);
  header.bucket_bytes.assign(size.buckets, 1000);
  const auto before = core::resident_memory();
  ASSERT_LT(before.peak, before.now + 5'000'000) << "an earlier peak would hide this one";
  StepLog log(size.steps, size.buckets);
  const std::vector<comm::BucketTimes> buckets(size.buckets, {0.5, 0.75});
  for (std::size_t step = 0; step < size.steps; ++step) {
    log.add(0.1, {.loss_sum = 8.0, .correct = 1, .images = 4}, {1, 2, 3, 4, 5, 6}, buckets);
  }
  const auto taken = static_cast<double>(core::resident_memory().now - before.now);
  EXPECT_NEAR(taken, double(step_log_bytes(size)), 0.1 * taken);
  {
    record::EpochRecord epoch = log.gather(*alone, *replicas);
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
  EXPECT_DOUBLE_EQ(summary.step_seconds_median, 12);
  EXPECT_FALSE(summary.step_seconds_interval) << "fewer than six steps";
  // The exposed communication takes 1 s and 2 s on the two ranks; the step takes 12 s on the slower
  // rank.
  EXPECT_DOUBLE_EQ(summary.exposed_share, 1.5 / 12);
  EXPECT_EQ(summary.last_test_accuracy, 0.25);
  EXPECT_EQ(summary.best_test_accuracy, 0.5);
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
  ASSERT_TRUE(summary.step_seconds_interval);
  EXPECT_DOUBLE_EQ(summary.step_seconds_interval->high, 12);
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
