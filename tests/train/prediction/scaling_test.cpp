// Predictions of whole steps of ResNet-18.

#include <gtest/gtest.h>

#include <array>

#include "lockstep/graph/models.hpp"
#include "lockstep/train/prediction.hpp"
#include "support.hpp"

namespace lockstep::train {
namespace {

using core::ExitStatus;

class ResNet : public testing::Test {
 protected:
  ResNet() {
    config_.precision = core::Precision::bf16;
    config_.batch_per_rank = 256;
    config_.global_batch = 256;
  }
  std::vector<ScalingPoint> scale(std::vector<int> ranks, ScalingKind kind = ScalingKind::weak) {
    return predict_scaling(gpu_, network_, config_, graph_, {}, ranks, kind);
  }

  graph::Graph graph_ = graph::make_model("resnet18-cifar", {});
  GpuModel gpu_ = gpu_model("h200", core::Precision::bf16);
  NetworkModel network_ = network_model("nvlink", gpu_);
  Config config_;
};

TEST_F(ResNet, StepIsTheSumOfItsRowsAndNotFasterThanItsBound) {
  const StepPrediction step = predict_step(gpu_, config_, graph_, {}, 1);
  double flops = 0, low = 0, bound = 0;
  for (const PredictedRow& row : step.rows) {
    EXPECT_LE(row.bound_seconds, row.seconds.low * (1 + 1e-12)) << row.what;
    EXPECT_LE(row.seconds.low, row.seconds.high) << row.what;
    if (row.what.find("convolution") == 0) flops += row.flops;
    low += row.seconds.low;
    bound += row.bound_seconds;
  }
  EXPECT_DOUBLE_EQ(step.seconds.low, low);
  EXPECT_DOUBLE_EQ(step.bound_seconds, bound);
  EXPECT_NEAR(flops, 256 * graph_.total_cost().training_flops(), 1e-3 * flops);
}

TEST_F(ResNet, StepOfOneRankHasNoCommunicationAndTheTimeOfTheTable) {
  const ScalingPoint point = scale({1}).front();
  EXPECT_EQ(point.all_reduce.high, 0);
  EXPECT_EQ(point.exposed.high, 0);
  EXPECT_TRUE(point.buckets.empty());
  EXPECT_EQ(point.efficiency.low, 1);
  EXPECT_EQ(point.efficiency.high, 1);
  const StepPrediction step = predict_step(gpu_, config_, graph_, {}, 1);
  EXPECT_NEAR(point.seconds.low, step.seconds.low, 1e-12);
  EXPECT_NEAR(point.seconds.high, step.seconds.high, 1e-12);
}

TEST_F(ResNet, StepGrowsWithTheBatchAndTheRanks) {
  const auto points = scale({1, 2, 4, 8, 16, 64});
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_GE(points[i].seconds.high, points[i - 1].seconds.high) << points[i].ranks;
    EXPECT_LE(points[i].efficiency.low, points[i - 1].efficiency.low) << points[i].ranks;
    EXPECT_LE(points[i].efficiency.high, 1);
  }
  const double small = predict_step(gpu_, config_, graph_, {}, 1).seconds.low;
  config_.batch_per_rank = 512;
  EXPECT_GT(predict_step(gpu_, config_, graph_, {}, 1).seconds.low, small);
}

// Buckets whose gradients become final at the end of the backward pass cannot be hidden by it.
TEST_F(ResNet, SlowBackwardPassHidesTheAllReducesOfAllEarlierBuckets) {
  gpu_.flops_per_second /= 1000;
  const ScalingPoint point = scale({8}).front();
  const double end = point.buckets.back().ready;
  int hidden = 0;
  for (const PredictedBucket& bucket : point.buckets) {
    if (bucket.ready == end) continue;
    EXPECT_LE(bucket.end, end);
    ++hidden;
  }
  EXPECT_GE(hidden, 4);
  EXPECT_GT(point.all_reduce.low, 0);
  EXPECT_LT(point.exposed.high / point.seconds.high, 1e-3);
  EXPECT_GT(point.efficiency.low, 0.99);
}

TEST_F(ResNet, SlowNetworkIsExposed) {
  network_.bus = network_.bus_of_8 = Interval{1e9, 1e9};
  const ScalingPoint point = scale({8}).front();
  EXPECT_GT(point.exposed.low, 0.5 * point.all_reduce.low);
  EXPECT_LT(point.efficiency.high, 0.2);
}

TEST_F(ResNet, IndependentReplicasDoNotCommunicate) {
  config_.reducer = comm::ReducerKind::none;
  const ScalingPoint point = scale({8}).front();
  EXPECT_EQ(point.all_reduce.high, 0);
  EXPECT_EQ(point.efficiency.low, 1);
}

TEST_F(ResNet, StrongScalingDividesTheGlobalBatch) {
  const auto points = scale({1, 8}, ScalingKind::strong);
  EXPECT_EQ(points[1].batch_per_rank, 32);
  EXPECT_LT(points[1].seconds.high, points[0].seconds.high);
  EXPECT_LT(points[1].efficiency.high, 1);
  expect_error(ExitStatus::usage, "--global-batch 256", [&] { scale({3}, ScalingKind::strong); });
}

}  // namespace
}  // namespace lockstep::train
