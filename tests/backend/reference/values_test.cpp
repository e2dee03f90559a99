// SPDX-License-Identifier: BSD-3-Clause
// Tests the forward pass of the reference on cases that are small enough to check by hand.

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "backend/support.hpp"
#include "expect_error.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::test {
namespace {

using graph::Graph;
using graph::NodeId;
using testing::ElementsAre;
using testing::FloatEq;
using testing::FloatNear;
using testing::Pointwise;

/// Normalisation that leaves the pixel values unchanged: (pixel / 255 - 0) / (1 / 255).
constexpr Normalisation raw_pixels{.mean = {0, 0, 0},
                                   .standard_deviation = {1 / 255.f, 1 / 255.f, 1 / 255.f}};

/// A network whose logits are the means of the channels of the output of `body`: the weights of its
/// linear layer are the identity matrix.
struct Probe {
  explicit Probe(core::ImageShape image, const std::function<NodeId(Graph&, NodeId)>& body,
                 std::int64_t batch = 1, float smoothing = 0, Mode mode = Mode::training)
      : graph(build(image, body, smoothing)),
        replica(DeviceKind::reference, 1, graph,
                {.batch = batch, .mode = mode, .normalisation = raw_pixels}) {
    const auto classes = static_cast<std::size_t>(graph.classes());
    std::vector<float> identity(classes * classes);
    for (std::size_t k = 0; k < classes; ++k) identity[k * classes + k] = 1;
    set("linear.weight", identity);
    set("linear.bias", std::vector<float>(classes));
  }

  static Graph build(core::ImageShape image, const std::function<NodeId(Graph&, NodeId)>& body,
                     float smoothing) {
    Graph graph("probe");
    const NodeId x = graph.global_average_pool("pool", body(graph, graph.input(image)));
    const NodeId scores = graph.linear("linear", x, graph.node(x).output.channels);
    graph.softmax_cross_entropy("loss", scores, {.label_smoothing = smoothing});
    graph.seal();
    return graph;
  }

  void set(const std::string& name, const std::vector<float>& values) {
    for (const auto& parameter : graph.parameters()) {
      if (parameter.name != name) continue;
      ASSERT_EQ(values.size(), parameter.elements);
      std::ranges::copy(values, replica.parameters().subspan(parameter.offset).begin());
      return;
    }
    FAIL() << "no parameter " << name;
  }

  std::vector<float> scores(const std::vector<std::uint8_t>& images,
                            const std::vector<std::int32_t>& labels = {0}) {
    replica.plan->upload(images, labels);
    replica.plan->forward();
    const auto logits = replica.plan->logits();
    return {logits.begin(), logits.end()};
  }

  Graph graph;
  Replica replica;
};

NodeId nothing(Graph&, NodeId x) { return x; }

// torch.arange(12).reshape(1, 2, 2, 3).flatten(1) is 0, 1, ..., 11.
TEST(ReferenceValues, FlattenOrdersChannelsThenRowsThenColumns) {
  Probe probe({2, 2, 3}, [](Graph& graph, NodeId x) { return graph.flatten("flatten", x); });
  EXPECT_THAT(probe.scores({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
              Pointwise(FloatNear(1e-5f), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(ReferenceValues, PixelsAreNormalisedPerChannel) {
  const Graph graph = Probe::build({4, 1, 1}, nothing, 0);
  const Normalisation normalisation{.mean = {0.5f, 0.25f, 0.125f},
                                    .standard_deviation = {0.5f, 2, 0.25f}};
  Replica replica(DeviceKind::reference, 1, graph, {.batch = 1, .normalisation = normalisation});
  for (const auto& parameter : graph.parameters()) {
    for (std::size_t i = 0; i < parameter.elements; ++i) {
      replica.parameters()[parameter.offset + i] =
          parameter.elements == 16 && i % 5 == 0 ? 1.f : 0.f;
    }
  }
  replica.upload({{0, 255, 51, 255}, {0}});
  replica.plan->forward();
  // The fourth channel uses the values of the third.
  EXPECT_THAT(replica.plan->logits(),
              ElementsAre(FloatEq(-1), FloatEq(0.375f), FloatEq(0.3f), FloatEq(3.5f)));
}

TEST(ReferenceValues, ConvolutionIsACrossCorrelation) {
  // The image and the kernel both contain 1 to 9. Without padding, the output is the sum of
  // squares, 285.
  const std::vector<float> kernel{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<std::uint8_t> image{1, 2, 3, 4, 5, 6, 7, 8, 9};
  Probe valid({1, 3, 3},
              [](Graph& g, NodeId x) { return g.convolution("c", x, 1, {.kernel = 3}); });
  valid.set("c.weight", kernel);
  EXPECT_THAT(valid.scores(image), ElementsAre(FloatNear(285, 1e-4f)));

  // With stride 2 and padding 1, the windows of the four outputs are centred on the corners of the
  // image. Top left: 5*1 + 6*2 + 8*4 + 9*5 = 94; top right: 4*2 + 5*3 + 7*5 + 8*6 = 106; bottom
  // left: 2*4 + 3*5 + 5*7 + 6*8 = 106; bottom right: 1*5 + 2*6 + 4*8 + 5*9 = 94. Their mean is 100,
  // and the bias adds 0.5.
  Probe corners({1, 3, 3}, [](Graph& g, NodeId x) {
    return g.convolution("c", x, 1, {.kernel = 3, .stride = 2, .padding = 1, .has_bias = true});
  });
  corners.set("c.weight", kernel);
  corners.set("c.bias", {0.5f});
  EXPECT_THAT(corners.scores(image), ElementsAre(FloatNear(100.5f, 1e-4f)));
}

TEST(ReferenceValues, ConvolutionSumsOverInputChannels) {
  Probe probe({2, 1, 1},
              [](Graph& g, NodeId x) { return g.convolution("c", x, 3, {.kernel = 1}); });
  probe.set("c.weight", {1, 0, 0, 1, 2, 3});
  EXPECT_THAT(probe.scores({10, 100}),
              ElementsAre(FloatNear(10, 1e-4f), FloatNear(100, 1e-4f), FloatNear(320, 1e-3f)));
}

TEST(ReferenceValues, MaxPoolIgnoresItsPadding) {
  // Batch norm in inference with mean 10 makes all values negative, so a padding of 0 would be the
  // maximum.
  Probe probe(
      {1, 3, 3},
      [](Graph& g, NodeId x) {
        return g.max_pool("p", g.append("bn", graph::BatchNorm{.epsilon = 0}, {x}),
                          {.kernel = 3, .stride = 2, .padding = 1});
      },
      1, 0, Mode::inference);
  probe.set("bn.weight", {1});
  probe.set("bn.bias", {0});
  probe.replica.statistics()[0] = 10;
  probe.replica.statistics()[16] = 1;
  // The windows contain (1 2 4 5), (2 3 5 6), (4 5 7 8) and (5 6 8 9). Their maxima are 5, 6, 8 and
  // 9; the mean of the maxima minus 10 is -3.
  EXPECT_THAT(probe.scores({1, 2, 3, 4, 5, 6, 7, 8, 9}), ElementsAre(FloatNear(-3, 1e-5f)));
}

TEST(ReferenceValues, MaxPoolKeepsNan) {
  Probe probe({1, 2, 2}, [](Graph& g, NodeId x) {
    return g.max_pool("p", g.convolution("c", x, 1, {.kernel = 1}), {.kernel = 2, .stride = 2});
  });
  probe.set("c.weight", {std::numeric_limits<float>::infinity()});
  // The last value of the window is infinity times 0, which is NaN; the others are infinite.
  EXPECT_THAT(probe.scores({1, 1, 1, 0}), ElementsAre(testing::IsNan()));
}

TEST(ReferenceValues, AddAndReluAndAveragePool) {
  Probe probe({1, 1, 2}, [](Graph& g, NodeId x) {
    const NodeId negative = g.convolution("c", x, 1, {.kernel = 1, .has_bias = true});
    return g.relu("relu", g.add("add", negative, x));
  });
  probe.set("c.weight", {-2});
  probe.set("c.bias", {3});
  // For x = 1 and 9, -2x + 3 + x is 2 and -6; after the ReLU 2 and 0; the mean is 1.
  EXPECT_THAT(probe.scores({1, 9}), ElementsAre(FloatNear(1, 1e-5f)));
}

TEST(ReferenceValues, BatchNormUsesTheBiasedVarianceAndTracksTheUnbiasedOne) {
  Probe probe(
      {1, 1, 1},
      [](Graph& g, NodeId x) { return g.append("bn", graph::BatchNorm{.epsilon = 0.75f}, {x}); },
      4);
  probe.set("bn.weight", {3});
  probe.set("bn.bias", {7});
  probe.replica.statistics()[0] = 100;  // running mean
  probe.replica.statistics()[16] = 10;  // running variance
  // The values 2, 4, 4 and 6 have the mean 4, the biased variance 2 and the unbiased variance 8/3.
  // They are normalised with 1 / sqrt(2 + 0.75).
  const auto step = static_cast<float>(2 * 3 / std::sqrt(2.75));
  EXPECT_THAT(probe.scores({2, 4, 4, 6}, {0, 0, 0, 0}),
              Pointwise(FloatNear(1e-5f), std::vector<float>{7 - step, 7, 7, 7 + step}));
  EXPECT_FLOAT_EQ(probe.replica.statistics()[0], 0.9f * 100 + 0.1f * 4);
  EXPECT_FLOAT_EQ(probe.replica.statistics()[16], 0.9f * 10 + 0.1f * 8 / 3);
  EXPECT_EQ(probe.replica.state.batches_tracked, 1);
}

TEST(ReferenceValues, GroupNormUsesTheBiasedVarianceOfEachGroupInTrainingAndInference) {
  for (const Mode mode : {Mode::training, Mode::inference}) {
    Probe probe(
        {4, 1, 1},
        [](Graph& g, NodeId x) {
          return g.append("gn", graph::GroupNorm{.groups = 2, .epsilon = 3}, {x});
        },
        1, 0, mode);
    probe.set("gn.weight", {3, 3, 1, 2});
    probe.set("gn.bias", {7, 7, 0, 1});
    // The groups (1, 3) and (2, 10) have the means 2 and 6 and the biased variances 1 and 16; they
    // are normalised with 1 / sqrt(1 + 3) and 1 / sqrt(16 + 3).
    const auto step = static_cast<float>(4 / std::sqrt(19.0));
    EXPECT_THAT(probe.scores({1, 3, 2, 10}),
                Pointwise(FloatNear(1e-5f), std::vector<float>{5.5f, 8.5f, -step, 1 + 2 * step}));
  }
}

TEST(ReferenceValues, BatchNormOfInferenceUsesTheRunningStatisticsAndLeavesThem) {
  Probe probe(
      {1, 1, 1},
      [](Graph& g, NodeId x) { return g.append("bn", graph::BatchNorm{.epsilon = 1}, {x}); }, 2, 0,
      Mode::inference);
  probe.set("bn.weight", {2});
  probe.set("bn.bias", {-1});
  probe.replica.statistics()[0] = 4;
  probe.replica.statistics()[16] = 3;
  // The output is 2 (x - 4) / sqrt(3 + 1) - 1.
  EXPECT_THAT(probe.scores({4, 10}, {0, 0}),
              ElementsAre(FloatNear(-1, 1e-5f), FloatNear(5, 1e-5f)));
  EXPECT_EQ(probe.replica.statistics()[0], 4);
  EXPECT_EQ(probe.replica.statistics()[16], 3);
  EXPECT_EQ(probe.replica.state.batches_tracked, 0);
}

TEST(ReferenceValues, BatchNormOfOneValueIsRefused) {
  const Graph graph = Probe::build(
      {1, 1, 1}, [](Graph& g, NodeId x) { return g.batch_norm("bn", x); }, 0);
  const auto backend = make_backend(DeviceKind::reference, 1);
  ModelState state = backend->make_state(graph);
  expect_error(core::ExitStatus::usage, {"bn"},
               [&] { backend->compile(graph, state, {.batch = 1}); });
  EXPECT_NO_THROW(backend->compile(graph, state, {.batch = 1, .mode = Mode::inference}));
}

TEST(ReferenceValues, LossOfEqualScoresIsTheLogarithmOfTheNumberOfClasses) {
  Probe probe({7, 1, 1}, nothing, 2);
  probe.scores(std::vector<std::uint8_t>(14, 0), {0, 3});
  const BatchResult result = probe.replica.plan->result();
  EXPECT_DOUBLE_EQ(result.loss_sum, 2 * std::log(7.0));
  EXPECT_EQ(result.images, 2);
  EXPECT_EQ(result.correct, 1) << "of equal scores the first wins";
}

TEST(ReferenceValues, LossOfTwoClasses) {
  Probe probe({2, 1, 1}, nothing);
  probe.scores({3, 1}, {1});
  // The logits are 3 and 1 (except for the rounding of 1 / 255), so the loss is log(1 + e^2).
  EXPECT_NEAR(probe.replica.plan->result().loss_sum, std::log1p(std::exp(2.0)), 1e-6);
  EXPECT_EQ(probe.replica.plan->result().correct, 0);

  Probe smoothed({2, 1, 1}, nothing, 1, 0.5f);
  smoothed.scores({3, 1}, {1});
  // The targets are 1/4 and 3/4, so the loss is log(1 + e^-2) / 4 + 3 log(1 + e^2) / 4.
  EXPECT_NEAR(smoothed.replica.plan->result().loss_sum,
              std::log1p(std::exp(-2.0)) / 4 + 3 * std::log1p(std::exp(2.0)) / 4, 1e-6);
}

TEST(ReferenceValues, LossOfHugeScoresIsFinite) {
  Probe probe({2, 1, 1},
              [](Graph& g, NodeId x) { return g.convolution("c", x, 2, {.kernel = 1}); });
  probe.set("c.weight", {1e4f, 0, 0, 1e4f});
  probe.scores({255, 0}, {1});
  EXPECT_NEAR(probe.replica.plan->result().loss_sum, 2.55e6, 1);
}

TEST(ReferenceValues, LossGradientIsSoftmaxMinusTarget) {
  Probe probe({2, 1, 1}, nothing, 2);
  probe.replica.step({{0, 0, 0, 0}, {0, 0}});
  for (const auto& parameter : probe.graph.parameters()) {
    if (parameter.name != "linear.bias") continue;
    EXPECT_THAT(probe.replica.gradients().subspan(parameter.offset, 2),
                ElementsAre(FloatEq(-0.5f), FloatEq(0.5f)));
  }
}

TEST(ReferenceValues, LabelsOutsideTheClassesAreRefused) {
  Probe probe({2, 1, 1}, nothing);
  EXPECT_THROW(probe.scores({3, 1}, {2}), core::Error);
  EXPECT_THROW(probe.scores({3, 1}, {-1}), core::Error);
}

}  // namespace
}  // namespace lockstep::backend::test
