// SPDX-License-Identifier: BSD-3-Clause
// Tests the mask of dropout on each device: its statistics, and what it depends on. agreement_test
// compares the values with the reference, which has the same mask.

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "backend/support.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::test {
namespace {

constexpr std::int64_t features = 16 * 24 * 24;

/// Returns the network input -> convolution -> dropout -> flatten -> linear -> loss.
graph::Graph network(float probability, std::uint32_t layer = 1) {
  graph::Graph graph("test");
  graph::NodeId x = graph.convolution("conv", graph.input({3, 24, 24}), 16, {.kernel = 1});
  x = graph.append("drop", graph::Dropout{probability, layer}, {x});
  x = graph.linear("linear", graph.flatten("flatten", x), 2);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

std::span<const float> gradient(const graph::Graph& graph, Replica& replica, std::size_t index) {
  const graph::Node& linear = graph.node(static_cast<graph::NodeId>(graph.nodes().size()) - 2);
  const graph::Parameter& parameter = graph.parameters()[linear.parameters[index]];
  return replica.gradients().subspan(parameter.offset, parameter.elements);
}

class Dropout : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override { REQUIRE_DEVICE(GetParam()); }

  /// Returns the output of the dropout for the images of a batch of 1 in a training step. It is the
  /// gradient of a row of the weights of the linear layer, divided by that of the bias.
  std::vector<float> output(const graph::Graph& graph, const PlanOptions& options,
                            std::int64_t steps_before = 0) const {
    Replica replica(GetParam(), 2, graph, options);
    replica.state.batches_tracked = steps_before;
    replica.step(random_batch(graph, 1, 5));
    const auto weights = gradient(graph, replica, 0);
    const float bias = gradient(graph, replica, 1)[0];
    std::vector<float> values(weights.begin(), weights.begin() + features);
    for (float& value : values) value /= bias;
    return values;
  }
};

TEST_P(Dropout, DropsWithTheProbabilityAndScalesTheRest) {
  const std::vector<float> inputs = output(network(0), {.batch = 1});
  for (const float probability : {0.1f, 0.5f, 0.8f}) {
    const std::vector<float> values = output(network(probability), {.batch = 1});
    std::int64_t dropped = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == 0) {
        ++dropped;
      } else {
        ASSERT_NEAR(values[i], inputs[i] / (1 - probability), 1e-4 * std::abs(values[i])) << i;
      }
    }
    // Four standard deviations of a binomial distribution.
    const double deviation = std::sqrt(double{features} * probability * (1 - probability));
    EXPECT_NEAR(static_cast<double>(dropped), double{features} * probability, 4 * deviation);
  }
}

TEST_P(Dropout, MasksDifferBetweenStepsLayersSeedsAndImages) {
  const PlanOptions first{.batch = 1};
  const std::vector<float> values = output(network(0.5f), first);
  EXPECT_EQ(output(network(0.5f), first), values);
  EXPECT_NE(output(network(0.5f), first, 1), values) << "step";
  EXPECT_NE(output(network(0.5f, 2), first), values) << "layer";
  EXPECT_NE(output(network(0.5f), {.batch = 1, .seed = 2}), values) << "seed";
  EXPECT_NE(output(network(0.5f), {.batch = 1, .first_image = 1}), values) << "image";
}

TEST_P(Dropout, ARestartContinuesTheSequenceOfMasks) {
  const graph::Graph graph = network(0.5f);
  const Batch batch = random_batch(graph, 1, 5);
  Replica replica(GetParam(), 1, graph, {.batch = 1});
  replica.step(batch);
  replica.step(batch);
  const auto second = gradient(graph, replica, 0);
  const float bias = gradient(graph, replica, 1)[0];
  const std::vector<float> restarted = output(graph, {.batch = 1}, 1);
  for (std::size_t i = 0; i < restarted.size(); ++i)
    ASSERT_EQ(restarted[i] == 0, second[i] / bias == 0) << i;
}

// Image i of rank r is image 2 i + r of the global batch.
TEST_P(Dropout, TwoRanksHaveTheMasksOfOne) {
  const graph::Graph graph = network(0.5f);
  const Batch batch = random_batch(graph, 4, 5);
  Replica one(GetParam(), 1, graph, {.batch = 4});
  one.step(batch);
  for (const std::int64_t rank : {0, 1}) {
    Batch half = part(graph, batch, rank, 1);
    const Batch other = part(graph, batch, 2 + rank, 1);
    half.images.insert(half.images.end(), other.images.begin(), other.images.end());
    half.labels.insert(half.labels.end(), other.labels.begin(), other.labels.end());
    Replica replica(GetParam(), 1, graph, {.batch = 2, .first_image = rank, .image_stride = 2});
    replica.step(half);
    const auto logits = replica.plan->logits();
    for (const std::size_t image : {0u, 1u}) {
      const auto want =
          one.plan->logits().subspan(2 * (2 * image + static_cast<std::size_t>(rank)), 2);
      EXPECT_LE(relative_error(logits.subspan(2 * image, 2), want), 1e-5);
    }
  }
}

TEST_P(Dropout, InferenceIsTheIdentity) {
  const auto logits = [&](float probability) {
    const graph::Graph graph = network(probability);
    Replica replica(GetParam(), 1, graph, {.batch = 2, .mode = Mode::inference});
    replica.upload(random_batch(graph, 2, 5));
    replica.plan->forward();
    const auto values = replica.plan->logits();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(logits(0.5f), logits(0));
}

#if defined(LOCKSTEP_TEST_ON_SIMULATED_GPU) || defined(LOCKSTEP_TEST_ON_GPU)
constexpr DeviceKind dropout_devices[]{DeviceKind::cuda};
#else
constexpr DeviceKind dropout_devices[]{DeviceKind::reference, DeviceKind::cpu};
#endif

INSTANTIATE_TEST_SUITE_P(Devices, Dropout, testing::ValuesIn(dropout_devices),
                         [](const auto& test) { return std::string(core::name(test.param)); });

TEST(DropoutOperation, RefusesAProbabilityOfOne) {
  EXPECT_THROW(network(1), core::Error);
  EXPECT_THROW(network(-0.1f), core::Error);
}

}  // namespace
}  // namespace lockstep::backend::test
