#include "timing/all_reduce_split.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

/// Returns three equal steps of two ranks with two buckets. The steps start at 10, 20 and 30 s on
/// both ranks; the clock of rank 1 is ahead by 50 s at first and by 52 s at last.
record::EpochRecord three_steps() {
  record::EpochRecord epoch;
  epoch.epoch = 1;
  for (int step = 0; step < 3; ++step) {
    epoch.loss.push_back(1);
    epoch.images.push_back(1);
    for (const double start : {1., 2., 3., 5.}) epoch.bucket_start_seconds.push_back(start);
    for (const double end : {4., 6., 4.5, 6.}) epoch.bucket_end_seconds.push_back(end);
    for (int rank = 0; rank < 2; ++rank)
      for (const double seconds : {0., 0., 1., 3., 2., 1.}) epoch.phase_seconds.push_back(seconds);
  }
  epoch.measurements["/buckets/call_seconds"] = std::vector<double>(12, 4);
  epoch.measurements["/steps/start_seconds"] = {10, 60, 20, 71, 30, 82};
  epoch.measurements["/epochs/clock_offset_seconds"] = {0, 0, 50, 52};
  return epoch;
}

// Rank 0 has a bucket in progress from 1 s to 6 s; rank 1 arrives at 3 s and 5 s, so rank 0
// transfers from 3 s to 4 s and from 5 s to 6 s. Rank 1 is the last to arrive and never waits; its
// buckets take 1.5 s and 1 s.
TEST(AllReduceSplit, WaitingEndsWhenTheLastRankStartsTheBucket) {
  const AllReduceSplit of_all = split_all_reduce(three_steps(), 2, 0);
  EXPECT_NEAR(of_all.waiting, 3 * (3 + 0) / 2., 1e-12);
  EXPECT_NEAR(of_all.transfer.high, 3 * (2 + 2.5) / 2., 1e-12);
  const AllReduceSplit of_two = split_all_reduce(three_steps(), 2, 1);
  EXPECT_NEAR(of_two.waiting, 2 * (3 + 0) / 2., 1e-12);
  EXPECT_NEAR(of_two.transfer.high, 2 * (2 + 2.5) / 2., 1e-12);
}

TEST(AllReduceSplit, BucketsThatOverlapCountOnce) {
  record::EpochRecord epoch = three_steps();
  epoch.bucket_start_seconds = {1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2};
  epoch.bucket_end_seconds = {4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5};
  const AllReduceSplit split = split_all_reduce(epoch, 2, 0);
  EXPECT_NEAR(split.waiting, 3 * 1 / 2., 1e-12);
  EXPECT_NEAR(split.transfer.high, 3 * 3, 1e-12);
}

// If the clocks are compared with an error, an all-reduce may seem to end before the last rank has
// started it.
TEST(AllReduceSplit, TransferIsNotNegative) {
  record::EpochRecord epoch = three_steps();
  epoch.measurements["/epochs/clock_offset_seconds"] = {0, 0, 40, 42};
  const AllReduceSplit split = split_all_reduce(epoch, 2, 0);
  EXPECT_NEAR(split.waiting, 3 * (5 + 0) / 2., 1e-12);
  EXPECT_NEAR(split.transfer.high, 3 * (0 + 2.5) / 2., 1e-12);
}

/// Returns a step of two ranks whose only all-reduce is in progress for 100 ms, until the end of
/// the backward pass at 200 ms on rank 0 and at 200 ms + `later` on rank 1. `calls`: (rank),
/// seconds.
record::EpochRecord one_step(std::vector<double> calls, double later = 0) {
  record::EpochRecord epoch;
  epoch.loss = {1};
  epoch.bucket_start_seconds = {0.1, 0.1};
  epoch.bucket_end_seconds = {0.2 + later, 0.2 + later};
  epoch.phase_seconds = {0, 0, 0.05, 0.15, later, 0.01, 0, 0, 0.05, 0.15 + later, 0, 0.01};
  epoch.measurements["/steps/start_seconds"] = {0, 0};
  epoch.measurements["/epochs/clock_offset_seconds"] = {0, 0, 0, 0};
  epoch.measurements["/buckets/call_seconds"] = std::move(calls);
  return epoch;
}

TEST(AllReduceSplit, ComputationBetweenCallsIsNoCertainTransfer) {
  const AllReduceSplit split = split_all_reduce(one_step({0.010, 0.010}), 2, 0);
  EXPECT_NEAR(split.transfer.low, 0.010, 1e-12);
  EXPECT_NEAR(split.transfer.high, 0.100, 1e-12);
  EXPECT_TRUE(std::isnan(split.transfer.value()));
}

TEST(AllReduceSplit, AnAllReduceThatConsistsOfCallsHasOneTime) {
  const AllReduceSplit split = split_all_reduce(one_step({0.100, 0.100}), 2, 0);
  EXPECT_NEAR(split.transfer.value(), 0.100, 1e-12);
}

// Rank 0 makes calls for 10 ms, ends its backward pass, and then waits 50 ms for the calls of
// rank 1.
TEST(AllReduceSplit, WaitingForTheCallsOfAnotherRankIsNoCertainTransfer) {
  const AllReduceSplit split = split_all_reduce(one_step({0.060, 0.010}, 0.050), 2, 0);
  EXPECT_NEAR(split.transfer.low, 0.010, 1e-12);
  EXPECT_NEAR(split.transfer.high, 0.150, 1e-12);
}

TEST(AllReduceSplit, IsUnknownWithoutTheMeasurements) {
  for (const char* path :
       {"/steps/start_seconds", "/epochs/clock_offset_seconds", "/buckets/call_seconds"}) {
    record::EpochRecord epoch = three_steps();
    epoch.measurements.erase(path);
    EXPECT_TRUE(std::isnan(split_all_reduce(epoch, 2, 0).waiting)) << path;
  }
  record::EpochRecord epoch = three_steps();
  epoch.bucket_start_seconds.clear();
  epoch.bucket_end_seconds.clear();
  EXPECT_TRUE(std::isnan(split_all_reduce(epoch, 2, 0).transfer.high));
}

}  // namespace
}  // namespace lockstep::train
