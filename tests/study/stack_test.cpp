// SPDX-License-Identifier: BSD-3-Clause
// Searches the deepest stacks of layers on one device, and on the devices of several ranks.

#include "lockstep/study/layers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "expect_error.hpp"
#include "layer_memory.hpp"
#include "lockstep/comm/mpi_session.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/study/stack.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::study {
namespace {

using namespace train;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

class Stack : public ::testing::Test {
 protected:
  std::vector<record::StackRow> measure(const graph::Layer& layer, std::uint64_t limit) {
    return measure_stack({.batch = layer.batch}, layer, *cpu_, *world_,
                         {.bytes = limit, .source = "test"},
                         [&](std::int64_t depth) { tried_.push_back(depth); });
  }

  /// Returns the maximum over the ranks.
  std::uint64_t largest(std::uint64_t bytes) {
    std::array values{static_cast<double>(bytes)};
    world_->maximum(values);
    return static_cast<std::uint64_t>(values[0]);
  }

  int argc_ = 0;
  char** argv_ = nullptr;
  comm::MpiSession session_{argc_, argv_};
  std::unique_ptr<comm::Communicator> world_ = comm::make_communicator(session_);
  std::unique_ptr<backend::Backend> cpu_ =
      backend::make_backend({.kind = backend::DeviceKind::cpu, .threads = 1});
  std::vector<std::int64_t> tried_;
};

class StackOf : public Stack, public ::testing::WithParamInterface<const char*> {};

// 32 layers per rank fit, so an error of the estimate of one layer is 3 %.
TEST_P(StackOf, EstimateIsCloseToTheDeepestStackThatRuns) {
  const graph::Layer layer = graph::parse_layer(GetParam());
  const int ranks = world_->size();
  const auto bytes = estimate_bytes(without_reduction({.batch = layer.batch}),
                                    graph::stack_layers(layer, 32), *cpu_);
  // What the first run adds to the process is not known here: 32 MiB are one or two layers.
  const std::uint64_t limit = largest(core::resident_memory().now + bytes + 32 * mib);
  const auto rows = measure(layer, limit);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].status, "complete");
  EXPECT_EQ(rows[0].stages, ranks);
  EXPECT_GE(rows[0].depth, 28 * ranks);
  EXPECT_LE(rows[0].depth, 36 * ranks);
  EXPECT_LE(20 * std::abs(rows[0].depth - rows[0].estimated_depth), rows[0].depth);
  EXPECT_LE(rows[0].peak_bytes, limit + limit / 20);
  EXPECT_EQ(rows[0].forward_seconds.size(), std::size_t{layer_repeats});
  EXPECT_EQ(rows[1].status, "out_of_memory");
  EXPECT_EQ(rows[1].depth, rows[0].depth + 1);
  EXPECT_TRUE(rows[1].forward_seconds.empty());
  EXPECT_NE(std::ranges::find(tried_, rows[1].depth), tried_.end()) << "the failure was observed";
}

// About 16 MiB per layer: feature maps of a convolution, and weights, gradients and momentum.
INSTANTIATE_TEST_SUITE_P(Layers, StackOf,
                         ::testing::Values("conv:64-64,k1@4x128x128", "linear:1184-1184@8"));

TEST_F(Stack, OfALayerThatDoesNotFitHasNoLayerPerDevice) {
  const auto rows = measure(graph::parse_layer("linear:512-512@8"), 1000);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].status, "out_of_memory");
  EXPECT_EQ(rows[0].depth, world_->size());
}

// Batch norm is fused with the operation before it, so no stage begins with it.
TEST_F(Stack, OfALayerBeforeWhichNoStageBeginsIsAnErrorOfAllRanks) {
  const graph::Layer layer = graph::parse_layer("batchnorm@2x8x8x8");
  if (world_->size() == 1) GTEST_SKIP() << "one stage is not cut";
  expect_error<AgreedError>(core::ExitStatus::usage, {}, [&] { measure(layer, 1000 * mib); });
}

}  // namespace
}  // namespace lockstep::study
