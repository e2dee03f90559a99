// SPDX-License-Identifier: BSD-3-Clause
// Tests that the order of ReLU and max-pooling changes neither losses nor gradients.

#include <algorithm>
#include <cstring>

#include "backend/support.hpp"

namespace lockstep::backend::test {
namespace {

enum class Norm { none, batch_norm };
enum class First { relu, pool };

graph::Graph network(Norm norm, graph::MaxPool pool, First first) {
  graph::Graph graph("relu-pool");
  auto x = graph.input({3, 12, 12});
  for (int i = 0; i < 2; ++i) {
    const std::string number = std::to_string(i);
    x = graph.convolution("conv" + number, x, 24, {.kernel = 3, .padding = 1, .has_bias = true});
    if (norm == Norm::batch_norm) x = graph.batch_norm("norm" + number, x);
    if (first == First::relu) x = graph.relu("relu" + number, x);
    x = graph.max_pool("pool" + number, x, pool);
    if (first == First::pool) x = graph.relu("relu" + number, x);
  }
  x = graph.linear("linear", graph.flatten("flatten", x), 10);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

/// Sets all weights of the convolutions to 0 and their biases to -1, 0 and 1 in turn: every window
/// of the max-pool then contains equal values, which are below, equal to and above 0.
void make_ties(const graph::Graph& graph, Replica& replica) {
  for (const auto& parameter : graph.parameters()) {
    if (parameter.name.rfind("conv", 0) != 0) continue;
    const auto values = replica.parameters().subspan(parameter.offset, parameter.elements);
    const bool is_bias = parameter.shape.size() == 1;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = is_bias ? static_cast<float>(static_cast<int>(i % 3) - 1) : 0.0F;
  }
  replica.backend->store(replica.state);
}

bool are_equal(std::span<const float> a, std::span<const float> b) {
  // 0 and -0 compare equal, because a gradient of 0 may have either sign.
  return std::ranges::equal(a, b);
}

struct Case {
  DeviceKind device;
  core::Precision precision;
  Norm norm;
  graph::MaxPool pool;
  bool has_ties;
};

class ReluPool : public ::testing::TestWithParam<Case> {};

TEST_P(ReluPool, HasEqualLossesAndGradientsInBothOrders) {
  const Case& test = GetParam();
  const graph::Graph before = network(test.norm, test.pool, First::relu);
  const graph::Graph after = network(test.norm, test.pool, First::pool);
  const PlanOptions options{
      .batch = 6, .precision = test.precision, .normalisation = cifar10_normalisation};
  Replica first(test.device, 2, before, options), second(test.device, 2, after, options);
  if (test.has_ties) {
    make_ties(before, first);
    make_ties(after, second);
  }
  const Batch batch = random_batch(before, 6, 7);
  first.step(batch);
  second.step(batch);
  EXPECT_EQ(first.plan->result().loss_sum, second.plan->result().loss_sum);
  EXPECT_TRUE(are_equal(first.plan->logits(), second.plan->logits()));
  EXPECT_TRUE(are_equal(first.gradients(), second.gradients()));
  const auto gradients = first.gradients();
  EXPECT_TRUE(std::ranges::any_of(gradients, [](float value) { return value != 0; }));
}

constexpr graph::MaxPool apart{.kernel = 2, .stride = 2};
constexpr graph::MaxPool overlapping{.kernel = 3, .stride = 2, .padding = 1};
constexpr auto fp32 = core::Precision::fp32;

INSTANTIATE_TEST_SUITE_P(
    Orders, ReluPool,
    ::testing::Values(Case{DeviceKind::reference, fp32, Norm::none, apart, false},
                      Case{DeviceKind::reference, fp32, Norm::none, overlapping, true},
                      Case{DeviceKind::reference, fp32, Norm::batch_norm, overlapping, false},
                      Case{DeviceKind::cpu, fp32, Norm::none, apart, false},
                      Case{DeviceKind::cpu, fp32, Norm::none, overlapping, false},
                      Case{DeviceKind::cpu, fp32, Norm::none, apart, true},
                      Case{DeviceKind::cpu, fp32, Norm::none, overlapping, true},
                      Case{DeviceKind::cpu, fp32, Norm::batch_norm, apart, false},
                      Case{DeviceKind::cpu, fp32, Norm::batch_norm, overlapping, true},
                      Case{DeviceKind::cpu, core::Precision::bf16, Norm::batch_norm, apart, false},
                      Case{DeviceKind::cpu, core::Precision::bf16, Norm::none, overlapping, true}));

}  // namespace
}  // namespace lockstep::backend::test
