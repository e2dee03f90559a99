// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/graph.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/models.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::graph {
namespace {

using core::Error;
using core::ImageShape;

TEST(Graph, InfersShapes) {
  Graph graph("test");
  const NodeId image = graph.input({3, 5, 7});
  const auto convolved = [&](Convolution operation) {
    return graph.node(graph.convolution("c", image, 4, operation)).output;
  };
  EXPECT_EQ(convolved({.kernel = 3, .stride = 1, .padding = 1}), (ImageShape{4, 5, 7}));
  EXPECT_EQ(convolved({.kernel = 3}), (ImageShape{4, 3, 5}));
  EXPECT_EQ(convolved({.kernel = 3, .stride = 2, .padding = 1}), (ImageShape{4, 3, 4}));
  EXPECT_EQ(convolved({.kernel = 1, .stride = 2}), (ImageShape{4, 3, 4}));
  EXPECT_EQ(convolved({.kernel = 7, .stride = 2, .padding = 3}), (ImageShape{4, 3, 4}));
  const NodeId pooled = graph.max_pool("p", image, {.kernel = 2, .stride = 2});
  EXPECT_EQ(graph.node(pooled).output, (ImageShape{3, 2, 3})) << "incomplete windows fall away";
  const NodeId mean = graph.global_average_pool("a", image);
  EXPECT_EQ(graph.node(mean).output, (ImageShape{3, 1, 1}));
  EXPECT_EQ(graph.node(graph.linear("l", mean, 9)).output, (ImageShape{9, 1, 1}));
  EXPECT_EQ(graph.node(graph.flatten("f", image)).output, (ImageShape{3 * 5 * 7, 1, 1}));
  EXPECT_EQ(graph.node(graph.append("d", Dropout{}, {image})).output, (ImageShape{3, 5, 7}));
}

TEST(Graph, LaysParametersOutInBackwardOrder) {
  const Graph graph = make_model("resnet18-cifar", {});
  std::vector<const Parameter*> by_offset;
  for (const Parameter& parameter : graph.parameters()) by_offset.push_back(&parameter);
  std::ranges::sort(by_offset, {}, &Parameter::offset);
  EXPECT_EQ(by_offset[0]->name, "linear.weight");
  EXPECT_EQ(by_offset[1]->name, "linear.bias");
  EXPECT_EQ(by_offset.back()->name, "conv1.weight");
  std::size_t end = 0;
  NodeId node = by_offset[0]->node;
  for (const Parameter* parameter : by_offset) {
    EXPECT_EQ(parameter->offset % 16, 0u) << "64 bytes of float32";
    EXPECT_GE(parameter->offset, end) << "tensors do not overlap";
    EXPECT_LT(parameter->offset - end, 16u) << "and leave no gaps but padding";
    EXPECT_LE(parameter->node, node);
    node = parameter->node;
    end = parameter->offset + parameter->elements;
  }
  EXPECT_GE(graph.parameter_elements(), end);
  EXPECT_LT(graph.parameter_elements() - end, 16u);
}

TEST(Graph, LaysStatisticsOutInForwardOrder) {
  const Graph graph = make_model("resnet18-cifar", {});
  const auto& statistics = graph.statistics();
  EXPECT_EQ(statistics[0].name, "bn1.running_mean");
  EXPECT_EQ(statistics[1].name, "bn1.running_var");
  EXPECT_EQ(statistics[1].initial, Initial::ones);
  EXPECT_TRUE(std::ranges::is_sorted(statistics, {}, &Statistic::offset));
  EXPECT_EQ(statistics[1].offset, 64u);
  EXPECT_EQ(statistics.back().offset + statistics.back().elements, graph.statistic_elements());
}

TEST(Graph, CountsWorkFromShapes) {
  Graph graph("test");
  const NodeId image = graph.input({3, 4, 4});
  const NodeId first = graph.convolution("c1", image, 8, {.kernel = 3, .stride = 1, .padding = 1});
  const NodeId second = graph.convolution("c2", first, 2, {.kernel = 1});
  EXPECT_EQ(graph.cost(first).forward_flops, 2. * 8 * 16 * 27);
  EXPECT_EQ(graph.cost(first).backward_data_flops, 0) << "the images need no gradient";
  EXPECT_EQ(graph.cost(first).backward_weight_flops, 2. * 8 * 16 * 27);
  EXPECT_EQ(graph.cost(second).backward_data_flops, 2. * 2 * 16 * 8);
  EXPECT_EQ(graph.cost(second).training_flops(), 3 * 2. * 2 * 16 * 8);
  EXPECT_EQ(graph.cost(second).output_elements, 32);
}

TEST(Graph, CountsTheValuesThatEachPassMoves) {
  Graph graph("test");
  const NodeId image = graph.input({3, 4, 4});
  const NodeId conv = graph.convolution("c", image, 8, {.kernel = 3, .stride = 1, .padding = 1});
  const NodeId norm = graph.batch_norm("n", conv);
  const NodeId sum = graph.add("s", norm, conv);
  EXPECT_EQ(graph.cost(conv).forward_values, (3 + 8) * 16) << "reads the images, writes the map";
  EXPECT_EQ(graph.cost(conv).backward_values, (3 + 8) * 16) << "per gradient";
  EXPECT_EQ(graph.cost(norm).forward_values, 3 * 8 * 16) << "statistics, then normalisation";
  EXPECT_EQ(graph.cost(norm).backward_values, 5 * 8 * 16);
  EXPECT_EQ(graph.cost(sum).forward_values, 3 * 8 * 16) << "two summands and the sum";
  EXPECT_EQ(graph.cost(norm).forward_flops, 8 * 16) << "one per value";
}

TEST(Graph, DescribesOperationsByKindAndShape) {
  Graph graph("test");
  const NodeId image = graph.input({3, 8, 8});
  const NodeId conv = graph.convolution("c", image, 4, {.kernel = 3, .stride = 2, .padding = 1});
  EXPECT_EQ(graph.describe(image), "input, 3x8x8");
  EXPECT_EQ(graph.describe(conv), "convolution 3x3 stride 2, 3x8x8 -> 4x4x4");
  EXPECT_EQ(graph.describe(graph.batch_norm("n", conv)), "batch norm, 4x4x4");
  EXPECT_EQ(graph.describe(graph.global_average_pool("avgpool", conv)),
            "global average pool, 4x4x4");
}

TEST(Graph, RefusesWhatDoesNotFit) {
  Graph graph("test");
  const NodeId image = graph.input({3, 5, 7});
  const NodeId other = graph.convolution("c", image, 4, {.kernel = 1});
  EXPECT_THROW(graph.add("sum", image, other), Error);
  EXPECT_THROW(graph.append("sum", Add{}, {image}), Error) << "an input is missing";
  EXPECT_THROW(graph.linear("linear", image, 10), Error) << "not a C x 1 x 1 input";
  EXPECT_THROW(graph.softmax_cross_entropy("loss", image, {}), Error);
  EXPECT_THROW(graph.convolution("large", image, 4, {.kernel = 9}), Error) << "empty output";
  EXPECT_THROW(graph.convolution("even", image, 4, {.kernel = 8, .stride = 2}), Error);
  EXPECT_THROW(graph.max_pool("pool", image, {.kernel = 2, .stride = 2, .padding = 2}), Error);
}

TEST(Graph, IsSealedOnceAndEndsInALoss) {
  Graph graph("test");
  const NodeId image = graph.input({3, 1, 1});
  EXPECT_THROW(graph.parameter_elements(), Error) << "no layout before seal()";
  EXPECT_THROW(graph.seal(), Error) << "no loss";
  graph.softmax_cross_entropy("loss", graph.linear("linear", image, 10), {});
  graph.seal();
  EXPECT_THROW(graph.seal(), Error);
  EXPECT_THROW(graph.relu("relu", image), Error);
  EXPECT_EQ(graph.parameter_count(), 40u);
  EXPECT_EQ(graph.parameter_elements(), 32u + 16u);
}

}  // namespace
}  // namespace lockstep::graph
