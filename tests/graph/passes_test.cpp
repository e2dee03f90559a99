// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/passes.hpp"

#include <gtest/gtest.h>

#include "lockstep/graph/models.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::graph {
namespace {

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.name);
  return names;
}

TEST(MoveRelu, PutsTheReluBehindTheMaxPool) {
  Graph graph("g");
  NodeId x = graph.convolution("conv", graph.input({3, 8, 8}), 4, {.kernel = 3, .padding = 1});
  x = graph.max_pool("pool", graph.relu("relu", x), {.kernel = 2, .stride = 2});
  x = graph.linear("linear", graph.flatten("flatten", x), 10);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  const auto [result, moved] = move_relu_behind_max_pool(graph);
  EXPECT_EQ(moved, 1);
  EXPECT_EQ(names_of(result), (std::vector<std::string>{"input", "conv", "pool", "relu", "flatten",
                                                        "linear", "loss"}));
  EXPECT_EQ(result.node(3).output, (core::ImageShape{4, 4, 4}));
  EXPECT_EQ(result.node(2).inputs, std::vector<NodeId>{1});
  EXPECT_EQ(result.node(4).inputs, std::vector<NodeId>{3});
}

TEST(MoveRelu, KeepsAReluThatAnotherNodeReads) {
  Graph graph("g");
  NodeId x = graph.convolution("conv", graph.input({3, 8, 8}), 4, {.kernel = 3, .padding = 1});
  const NodeId relu = graph.relu("relu", x);
  x = graph.max_pool("pool", relu, {.kernel = 3, .stride = 1, .padding = 1});
  x = graph.global_average_pool("average", graph.add("add", x, relu));
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  const auto [result, moved] = move_relu_behind_max_pool(graph);
  EXPECT_EQ(names_of(result), names_of(graph));
  EXPECT_EQ(moved, 0);
}

TEST(MoveRelu, KeepsTheOrderOfTheParameters) {
  for (const auto& [name, image, count] :
       {std::tuple{"vgg16", core::ImageShape{3, 32, 32}, 5},
        std::tuple{"vgg16-imagenet", core::ImageShape{3, 224, 224}, 5},
        std::tuple{"resnet18-imagenet", core::ImageShape{3, 64, 64}, 1},
        std::tuple{"resnet18-cifar", core::ImageShape{3, 32, 32}, 0}}) {
    const Graph graph = make_model(name, {.image = image});
    const auto [result, moved] = move_relu_behind_max_pool(graph);
    EXPECT_EQ(moved, count) << name;
    ASSERT_EQ(result.parameters().size(), graph.parameters().size());
    for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
      EXPECT_EQ(result.parameters()[i].name, graph.parameters()[i].name);
      EXPECT_EQ(result.parameters()[i].offset, graph.parameters()[i].offset);
    }
    ASSERT_EQ(result.statistics().size(), graph.statistics().size());
    if (count > 0) {
      EXPECT_LT(result.total_cost().forward_values, graph.total_cost().forward_values) << name;
    }
  }
}

}  // namespace
}  // namespace lockstep::graph
