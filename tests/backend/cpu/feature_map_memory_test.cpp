// SPDX-License-Identifier: BSD-3-Clause
// Tests that plans whose feature maps are computed again in the backward pass compute the same bits
// in less memory.

#include <gmock/gmock.h>

#include <fmt/format.h>

#include <string>
#include <vector>

#include "backend/support.hpp"

namespace lockstep::backend::test {
namespace {

using core::Precision;
using graph::NodeId;

constexpr std::int64_t images = 5;

using Append = NodeId (*)(graph::Graph&, const std::string& name, NodeId);

NodeId batch_norm(graph::Graph& graph, const std::string& name, NodeId x) {
  return graph.batch_norm(name, x);
}
NodeId group_norm(graph::Graph& graph, const std::string& name, NodeId x) {
  return graph.append(name, graph::GroupNorm{.groups = 8}, {x});
}

/// Layers of convolution, normalisation and ReLU of equal size, then a residual block with a
/// projection, whose shortcut is normalised.
graph::Graph network(Append norm) {
  graph::Graph graph("network");
  const auto layer = [&](const std::string& name, NodeId x, std::int64_t channels) {
    x = graph.convolution("conv" + name, x, channels, {.kernel = 3, .stride = 1, .padding = 1});
    return norm(graph, "norm" + name, x);
  };
  NodeId x = graph.input({3, 13, 9});
  for (const char* name : {"1", "2", "3", "4", "5"})
    x = graph.relu(std::string("relu") + name, layer(name, x, 32));
  const NodeId inner = graph.relu("relu6", layer("6", x, 64));
  const NodeId shortcut =
      norm(graph, "shortcut.1", graph.convolution("shortcut.0", x, 64, {.kernel = 1}));
  x = graph.relu("sum", graph.add("add", layer("7", inner, 64), shortcut));
  x = graph.relu("relu8", layer("8", x, 64));
  x = graph.linear("linear", graph.global_average_pool("pool", x), 5);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

int recomputed(const Plan& plan) {
  int count = 0;
  for (const OperationChoice& choice : plan.choices())
    count += choice.phase == recompute_phase ? 1 : 0;
  return count;
}

struct Case {
  const char* name;
  Append norm;
  Precision precision;
  int threads;

  friend void PrintTo(const Case& some, std::ostream* out) { *out << some.name; }
};

class FeatureMapMemory : public testing::TestWithParam<Case> {};

TEST_P(FeatureMapMemory, RecomputedMapsHaveTheSameBitsAndTakeLessMemory) {
  const auto& [name, norm, precision, threads] = GetParam();
  const graph::Graph graph = network(norm);
  PlanOptions options{.batch = images, .precision = precision};
  Replica low(DeviceKind::cpu, threads, graph, options);
  options.recomputation = Recomputation::off;
  Replica high(DeviceKind::cpu, threads, graph, options);
  EXPECT_GE(recomputed(*low.plan), 3);
  EXPECT_EQ(recomputed(*high.plan), 0);
  EXPECT_LT(low.plan->memory().activations, high.plan->memory().activations * 85 / 100);
  const auto copy = [](std::span<const float> values) {
    return std::vector(values.begin(), values.end());
  };
  for (const std::uint64_t seed : {1u, 2u}) {
    SCOPED_TRACE(seed);
    const Batch batch = random_batch(graph, images, seed);
    low.step(batch);
    high.step(batch);
    EXPECT_EQ(copy(low.gradients()), copy(high.gradients()));
    EXPECT_EQ(copy(low.statistics()), copy(high.statistics()));
    EXPECT_EQ(copy(low.plan->logits()), copy(high.plan->logits()));
  }
}

constexpr Case cases[]{{"batch_norm_fp32_1", batch_norm, Precision::fp32, 1},
                       {"batch_norm_fp32_2", batch_norm, Precision::fp32, 2},
                       {"batch_norm_bf16_2", batch_norm, Precision::bf16, 2},
                       {"group_norm_fp32_2", group_norm, Precision::fp32, 2},
                       {"group_norm_bf16_1", group_norm, Precision::bf16, 1}};
INSTANTIATE_TEST_SUITE_P(Cpu, FeatureMapMemory, testing::ValuesIn(cases),
                         [](const auto& test) { return test.param.name; });

/// Counts the all-reduces of the statistics of one replica.
class Counter final : public core::StatisticsAllReduce {
 public:
  int replicas() const override { return 1; }
  void sum(std::span<float>) override { ++calls; }
  int calls = 0;
};

TEST(SynchronisedBatchNorm, RecomputationReducesNoStatistics) {
  const graph::Graph graph = network(batch_norm);
  const Batch batch = random_batch(graph, images, 1);
  const auto calls = [&](Recomputation recomputation) {
    Counter counter;
    Replica replica(DeviceKind::cpu, 1, graph,
                    {.batch = images, .recomputation = recomputation, .batch_norm_sum = &counter});
    replica.step(batch);
    return counter.calls;
  };
  EXPECT_GT(calls(Recomputation::on), 0);
  EXPECT_EQ(calls(Recomputation::on), calls(Recomputation::off));
}

TEST(CpuInference, RecomputesNothing) {
  const graph::Graph graph = network(batch_norm);
  const Replica replica(DeviceKind::cpu, 1, graph, {.batch = images, .mode = Mode::inference});
  EXPECT_EQ(recomputed(*replica.plan), 0);
}

}  // namespace
}  // namespace lockstep::backend::test
