// SPDX-License-Identifier: BSD-3-Clause
// Tests which thread is the first to write to the memory of a plan, which determines the NUMA node
// of the memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "backend/cpu/kernels/division.hpp"
#include "backend/support.hpp"
#include "lockstep/core/process/system.hpp"

namespace lockstep::backend::test {
namespace {

TEST(Placement, DistributedBuffersAreZeroed) {
  for (const std::size_t bytes : {0, 1, 4095, 4097, 3'000'001}) {
    for (const int threads : {1, 2, 3}) {
      const core::Buffer buffer = cpu::distributed_buffer(bytes, threads);
      ASSERT_EQ(buffer.bytes(), bytes);
      EXPECT_TRUE(std::ranges::all_of(buffer.as<std::byte>(),
                                      [](std::byte byte) { return byte == std::byte{0}; }));
    }
  }
}

TEST(Placement, FirstStepAllocatesThePagesOfThePlan) {
  graph::Graph graph("large maps");
  auto node = graph.input({3, 64, 64});
  node = graph.convolution("a", node, 64, {.kernel = 3, .stride = 1, .padding = 1});
  node = graph.relu("b", node);
  node = graph.global_average_pool("pool", node);
  node = graph.linear("linear", node, 10);
  graph.softmax_cross_entropy("loss", node, {});
  graph.seal();
  constexpr std::int64_t batch = 64;
  const PlanOptions options{.batch = batch, .convolution_algorithm = ConvolutionAlgorithm::direct};
  const std::uint64_t before = core::resident_memory().now;
  Replica replica(DeviceKind::cpu, 2, graph, options);
  const std::uint64_t planned = core::resident_memory().now;
  const std::uint64_t maps = replica.plan->memory().activations;
  ASSERT_GT(maps, std::uint64_t{100} << 20);
  EXPECT_LT(planned, before + maps / 2);
  replica.plan->upload(std::vector<std::uint8_t>(batch * 3 * 64 * 64), std::vector<int>(batch));
  replica.plan->forward();
  core::NoGradientListener no_listener;
  replica.plan->backward(no_listener);
  EXPECT_GT(core::resident_memory().now, before + maps / 10 * 9);
}

}  // namespace
}  // namespace lockstep::backend::test
