#include "schedule.hpp"

#include <gtest/gtest.h>

#include <array>

#include "support.hpp"

namespace lockstep::train {
namespace {

using comm::BucketPartition;

constexpr double gb = 1e9;

/// Returns work that takes `seconds` on the ideal GPU.
KernelWork work(double seconds, std::size_t gradients_final = 0) {
  return {.bytes = {seconds * gb, seconds * gb}, .gradients_final = gradients_final};
}

/// Buckets of 40, 40 and 20 elements. The gradients of the first are final after 3 s, those of the
/// second after 5 s, and those of the third after 6 s, which is the end of the backward pass.
class ThreeBuckets : public testing::Test {
 protected:
  Schedule schedule(std::array<double, 3> all_reduces,
                    AllReduceStart start = AllReduceStart::gradients_final) {
    return schedule_step(kernels_, ideal_gpu(), buckets_, all_reduces, start, 0.5);
  }

  StepKernels kernels_{.compute = {work(1), work(2, 45), work(1, 45), work(1, 80), work(1, 100)},
                       .updates = {work(0.5), work(0.5), work(0.25)}};
  BucketPartition buckets_{100, 40 * sizeof(float)};
};

TEST_F(ThreeBuckets, OverlapTheBackwardPass) {
  const Schedule result = schedule({1, 1, 0.125});
  EXPECT_DOUBLE_EQ(result.buckets[0].ready, 3);
  EXPECT_DOUBLE_EQ(result.buckets[0].end, 4);
  EXPECT_DOUBLE_EQ(result.buckets[1].start, 5);
  EXPECT_DOUBLE_EQ(result.buckets[2].end, 6.125);
  // The last all-reduce is hidden by the updates of the other buckets.
  EXPECT_DOUBLE_EQ(result.exposed, 0);
  EXPECT_DOUBLE_EQ(result.all_reduce, 2.125);
  EXPECT_DOUBLE_EQ(result.seconds, 7.25);
}

TEST_F(ThreeBuckets, FollowEachOtherOnTheCommunicationStream) {
  const Schedule result = schedule({4, 2, 1});
  EXPECT_DOUBLE_EQ(result.buckets[1].start, 7);  // ready at 5, after the first bucket
  EXPECT_DOUBLE_EQ(result.buckets[2].start, 9);
  // Waits: until 7 for the first, until 9 after the update at 7.5, until 10 after that at 9.5.
  EXPECT_DOUBLE_EQ(result.exposed, 1 + 1.5 + 0.5);
  EXPECT_DOUBLE_EQ(result.seconds, 10.25);
}

TEST_F(ThreeBuckets, StartAfterTheBackwardPassIfTheReducerDoes) {
  const Schedule result = schedule({1, 1, 0.125}, AllReduceStart::backward_end);
  EXPECT_DOUBLE_EQ(result.buckets[0].start, 6);
  EXPECT_DOUBLE_EQ(result.exposed, 1 + 0.5);
}

TEST_F(ThreeBuckets, AreAllNeededByASingleUpdate) {
  kernels_.updates = {work(1.25)};
  const Schedule result = schedule({4, 2, 1});
  EXPECT_DOUBLE_EQ(result.exposed, 10 - 6);
  EXPECT_DOUBLE_EQ(result.seconds, 11.25);
}

TEST(Schedule, AddsTimestampsAndTheGapBetweenGraphs) {
  GpuModel gpu = ideal_gpu();
  gpu.graph_gap = {1, 3};
  gpu.timestamp = {0.25, 0.75};
  const StepKernels kernels{.compute = {work(1)}, .updates = {work(1)}, .timestamps = 4};
  const BucketPartition none = BucketPartition::without_buckets(10);
  const auto seconds = [&](double share) {
    return schedule_step(kernels, gpu, none, {}, AllReduceStart::gradients_final, share).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(0), 1 + 2 + 1);
  EXPECT_DOUBLE_EQ(seconds(1), 3 + 2 + 3);
}

class AllReduce : public testing::Test {
 protected:
  NetworkModel network_{.name = "test",
                        .ranks_per_node = 8,
                        .base_latency = {1, 2},
                        .bus = Interval{10, 20},
                        .bus_of_8 = Interval{10, 40},
                        .node_step = {0, 0.5},
                        .adapter = Interval{2, 4},
                        .network_step = {1, 3}};
};

TEST_F(AllReduce, OfOneRankTakesNoTime) { EXPECT_EQ(all_reduce_seconds(network_, 1, 1e9, 1), 0); }

TEST_F(AllReduce, InANodeIsLatencyAndBytesAtTheBusBandwidth) {
  EXPECT_DOUBLE_EQ(all_reduce_seconds(network_, 4, 80, 0), 1 + 2.0 * 3 / 4 * 80 / 20);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(network_, 4, 80, 1), 2 + 6 * 0.5 + 2.0 * 3 / 4 * 80 / 10);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(network_, 8, 80, 0), 1 + 2.0 * 7 / 8 * 80 / 40);
}

TEST_F(AllReduce, BetweenNodesIsHierarchical) {
  const double in_node = 2.0 * 7 / 8 * 80, between = 2.0 * 3 / 4 * 80 / 8;
  // Best: both parts overlap, of which the node takes 3.5 s and the adapter 3.75 s.
  EXPECT_DOUBLE_EQ(all_reduce_seconds(network_, 32, 80, 0), 1 + 2 * 2 * 1 + between / 4);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(network_, 32, 80, 1),
                   2 + 14 * 0.5 + 2 * 2 * 3 + in_node / 10 + between / 2);
}

TEST_F(AllReduce, GrowsWithRanksAndBytes) {
  double last = -1;
  for (const int ranks : {1, 2, 4, 8, 16, 32, 64}) {
    const double seconds = all_reduce_seconds(network_, ranks, 1000, 1);
    EXPECT_GT(seconds, last) << ranks;
    EXPECT_GE(all_reduce_seconds(network_, ranks, 2000, 1), seconds);
    last = seconds;
  }
}

TEST_F(AllReduce, NeedsWholeNodesAndAnAdapterBetweenThem) {
  using core::ExitStatus;
  expect_error(ExitStatus::usage, "multiple", [&] { all_reduce_seconds(network_, 12, 80, 0); });
  network_.adapter = std::nullopt;
  expect_error(ExitStatus::usage, "adapter", [&] { all_reduce_seconds(network_, 16, 80, 0); });
}

}  // namespace
}  // namespace lockstep::train
