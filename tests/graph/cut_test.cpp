// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>

#include <algorithm>
#include <variant>

#include "expect_error.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::graph {
namespace {

std::vector<std::string> parameter_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters()) names.push_back(parameter.name);
  return names;
}

class CutOfModels : public testing::TestWithParam<std::string> {};

TEST_P(CutOfModels, StagesHaveAllNodesInOrderAndPassOneValue) {
  const Graph whole = make_model(GetParam(), {});
  for (const int count : {1, 2, 3, 4}) {
    const std::vector<Graph> stages = whole.cut(count);
    ASSERT_EQ(stages.size(), static_cast<std::size_t>(count));
    std::vector<std::string> nodes, parameters;
    std::size_t statistics = 0;
    double flops = 0;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const Graph& stage = stages[i];
      ASSERT_EQ(stage.boundary_inputs().size(), i == 0 ? 0u : 1u);
      ASSERT_EQ(stage.boundary_outputs().size(), i + 1 == stages.size() ? 0u : 1u);
      if (i > 0) {
        const Graph& before = stages[i - 1];
        const Node& output = before.node(before.boundary_outputs()[0]);
        const Node& input = stage.node(stage.boundary_inputs()[0]);
        EXPECT_EQ(input.name, output.name);
        EXPECT_EQ(input.output, output.output);
      }
      for (const Node& node : stage.nodes()) {
        if (!node.operation.is<BoundaryInput>()) nodes.push_back(node.name);
      }
      std::ranges::copy(parameter_names(stage), std::back_inserter(parameters));
      statistics += stage.statistics().size();
      flops += stage.total_cost().training_flops();
      EXPECT_EQ(stage.is_whole(), count == 1);
    }
    std::vector<std::string> all;
    for (const Node& node : whole.nodes()) all.push_back(node.name);
    EXPECT_EQ(nodes, all);
    EXPECT_EQ(parameters, parameter_names(whole));
    EXPECT_EQ(statistics, whole.statistics().size());
    EXPECT_DOUBLE_EQ(flops, whole.total_cost().training_flops());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CutOfModels,
                         testing::Values("resnet18-cifar", "resnet34-cifar", "vgg16"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// Returns a chain of 1x1 convolutions with the given numbers of channels on 1x1 images.
Graph chain(const std::vector<std::int64_t>& channels) {
  Graph graph("chain");
  NodeId x = graph.input({10, 1, 1});
  for (const std::int64_t count : channels)
    x = graph.relu("relu", graph.convolution("conv", x, count, {.kernel = 1}));
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  return graph;
}

TEST(Cut, BalancesTheWork) {
  // Multiply-adds 10 x 90, 90 x 10, then 10 x 10 four times: two expensive convolutions.
  const auto stages = chain({90, 10, 10, 10, 10, 10}).cut(2);
  EXPECT_EQ(stages[0].parameters().size(), 1u) << "900 products of weights, no data gradient";
  EXPECT_EQ(stages[1].parameters().size(), 5u);
}

TEST(Cut, KeepsElementWiseOperationsWithTheirInputs) {
  for (const Graph& stage : make_model("resnet18-cifar", {}).cut(9)) {
    const auto& nodes = stage.nodes();
    if (stage.boundary_inputs().empty()) continue;
    EXPECT_TRUE(nodes[1].operation.is<Convolution>() ||
                nodes[1].operation.is<GlobalAveragePool>() || nodes[1].operation.is<Linear>())
        << nodes[1].name;
  }
}

TEST(Cut, ABoundaryOfVectorsIsAVector) {
  const Graph whole = make_model("vgg16-imagenet", {.image = {3, 224, 224}});
  int vectors = 0;
  for (const Graph& stage : whole.cut(22)) {
    for (const NodeId id : stage.boundary_inputs()) {
      const Node& node = stage.node(id);
      const bool is_vector = node.output.pixels() == 1;
      vectors += is_vector ? 1 : 0;
      EXPECT_EQ(node.operation.traits().form,
                is_vector ? OutputForm::vector : OutputForm::feature_map)
          << node.name;
    }
  }
  EXPECT_GT(vectors, 0);
}

TEST(Cut, BalancesTheGivenWork) {
  const Graph whole = chain({4, 4, 4, 4});
  std::vector<double> work(whole.nodes().size(), 0);
  work[1] = 1;  // the first convolution takes as long as the other three together
  work[3] = work[5] = work[7] = 1.0 / 3;
  const auto stages = whole.cut(2, work);
  EXPECT_EQ(stages[0].parameters().size(), 1u);
  EXPECT_EQ(stages[1].parameters().size(), 3u);
}

TEST(Cut, StagesKeepTheIndicesOfTheirParameters) {
  std::vector<std::size_t> indices;
  for (const Graph& stage : make_model("resnet18-cifar", {}).cut(3)) {
    for (const Parameter& parameter : stage.parameters()) indices.push_back(parameter.index);
  }
  ASSERT_EQ(indices.size(), make_model("resnet18-cifar", {}).parameters().size());
  for (std::size_t i = 0; i < indices.size(); ++i) EXPECT_EQ(indices[i], i);
}

TEST(Cut, CutsBeforeTheNamedLayers) {
  const std::vector<std::string> firsts{"layer2", "layer3.1.conv1"};
  const auto stages = make_model("resnet18-cifar", {}).cut_before(firsts);
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[1].node(1).name, "layer2.0.shortcut.0");
  EXPECT_EQ(stages[2].node(1).name, "layer3.1.conv1");
}

TEST(Cut, RefusesCutsThatAreNotPossible) {
  const Graph whole = make_model("resnet18-cifar", {});
  const auto expect_refused = [&](const std::vector<std::string>& firsts, const char* part) {
    expect_error(core::ExitStatus::usage, {part}, [&] { whole.cut_before(firsts); });
  };
  expect_refused({"layer9"}, "no layer 'layer9'");
  expect_refused({"layer2.0.conv2"}, "cut before layer2.0.shortcut.0 or layer2.1.conv1");
  expect_refused({"layer2.0.conv2"}, "layer2.0.conv2: more than one value would pass");
  expect_refused({"layer2.0.bn1"}, "before layer2.0.bn1: it is fused with the layer before it;");
  expect_refused({"conv1"}, "before conv1: the first stage would have no layer;");
  expect_refused({"conv1"}, "cut before layer1.0.conv1");
  expect_refused({"layer3", "layer2"}, "forward order");
}

TEST(Cut, RefusesMoreStagesThanThereAre) {
  const Graph whole = chain({4, 4});
  EXPECT_EQ(whole.cut(2).size(), 2u);
  expect_error(core::ExitStatus::usage, {"at most 2"}, [&] { whole.cut(3); });
}

TEST(Stage, HasNoClassesAndNoImages) {
  const auto stages = chain({4, 4}).cut(2);
  EXPECT_THROW(stages[0].classes(), core::Error);
  EXPECT_EQ(stages[0].image(), (core::ImageShape{10, 1, 1}));
  EXPECT_THROW(stages[1].image(), core::Error);
  EXPECT_EQ(stages[1].classes(), 4);
  Graph open("open");
  open.relu("relu", open.append("x", BoundaryInput{{3, 2, 2}}, {}));
  EXPECT_THROW(open.seal(), core::Error) << "neither a loss nor outputs";
  open.seal({1});
  EXPECT_THROW(open.cut(1), core::Error) << "a stage";
}

}  // namespace
}  // namespace lockstep::graph
