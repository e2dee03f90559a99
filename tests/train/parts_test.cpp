// The trainer's parts that need no other rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "lockstep/train/summary.hpp"
#include "replicas.hpp"
#include "step_log.hpp"
#include "stop_signal.hpp"
#include "watchdog.hpp"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

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

TEST(WatchdogDeathTest, EndsAProcessThatStandsStillSayingWhere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Watchdog watchdog(1s, "rank 3 on node7");
        watchdog.progress(42, "backward");
        std::this_thread::sleep_for(60s);
      },
      ::testing::ExitedWithCode(70),
      "rank 3 on node7: no progress for 1 s in step 42, in 'backward'");
}

TEST(Watchdog, LetsGoAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  { Watchdog watchdog(3600s, "rank 0"); }
  // Without being woken it would sleep on for a second at least.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 900ms);
}

TEST(StepLog, ReturnsStepsAsTheyWereGiven) {
  const auto alone = comm::make_self_communicator();
  StepLog log(3, 1);
  for (int step = 0; step < 2; ++step) {
    const std::vector<comm::BucketTimes> buckets{{0.5 + step, 0.75 + step}};
    log.add(0.1 * (step + 1), {.loss_sum = 8.0 + step, .correct = 1 + step, .images = 4},
            {1, 2, 3, 4, 5, 6.0 + step}, buckets);
  }
  const record::EpochRecord epoch = log.gather(*alone, false);
  EXPECT_THAT(epoch.learning_rate, ::testing::ElementsAre(0.1, 0.2));
  EXPECT_THAT(epoch.loss, ::testing::ElementsAre(2.0, 2.25));
  EXPECT_THAT(epoch.images, ::testing::ElementsAre(4, 4));
  EXPECT_THAT(epoch.phase_seconds, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 7));
  EXPECT_THAT(epoch.bucket_end_seconds, ::testing::ElementsAre(0.75, 1.75));
  EXPECT_DOUBLE_EQ(epoch.train_loss, 17.0 / 8);
  EXPECT_DOUBLE_EQ(epoch.train_accuracy, 3.0 / 8);
  EXPECT_TRUE(std::isnan(epoch.test_accuracy));
}

/// One step of two ranks whose phases all take `seconds`, the second rank twice as long.
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
  Summariser summariser(2, 4);
  summariser.add(epoch_of(1, 100, 4));
  summariser.add(epoch_of(2, 1, 4));
  summariser.add(epoch_of(3, 50, 4));
  const RunSummary summary = summariser.summary();
  EXPECT_EQ(summary.steps, 12);
  EXPECT_EQ(summary.timed_epoch, 2);
  EXPECT_DOUBLE_EQ(summary.epoch_seconds, 4 * 6 * 2.0);
  EXPECT_DOUBLE_EQ(summary.training_seconds, 4 * 5 * 2.0);
  EXPECT_DOUBLE_EQ(summary.images_per_second, 24 / 12.0);
  EXPECT_DOUBLE_EQ(summary.images_per_second_spread, 0);
  EXPECT_DOUBLE_EQ(summary.exposed_share, 1.0 / 6);
  EXPECT_EQ(summary.last_test_accuracy, 0.25);
  EXPECT_EQ(summary.best_test_accuracy, 0.5);
}

TEST(Summary, LeavesTheFirstStepsOfALoneEpochOut) {
  record::EpochRecord epoch = epoch_of(1, 1, 4);
  for (std::size_t i = 0; i < 2 * record::phase_count; ++i) epoch.phase_seconds[i] = 1000;
  Summariser summariser(2, 8);
  summariser.add(epoch);
  const RunSummary summary = summariser.summary();
  EXPECT_EQ(summary.timed_steps, 3);
  EXPECT_DOUBLE_EQ(summary.images_per_second, 2.0);
  EXPECT_FALSE(summary.epoch_complete);
}

}  // namespace
}  // namespace lockstep::train
