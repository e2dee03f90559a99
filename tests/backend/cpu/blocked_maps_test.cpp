// SPDX-License-Identifier: BSD-3-Clause
// Compares networks whose feature maps have blocks of 32 images and 32 channels, which convolutions
// with bfloat16 instructions process in place, with the reference. The networks contain all
// operations of feature maps, numbers of images and channels that fill a block or not, and odd
// sizes. The AMX tiles are emulated if the processor has none.
//
// Tolerances, as relative Euclidean norms per tensor (see agreement_test.cpp): 3e-2 for the forward
// pass. For gradients 0.2, because rounding changes the sign of some inputs of ReLU, which affects
// the gradients of all preceding layers.

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "backend/agreement.hpp"
#include "backend/feature_map.hpp"

namespace lockstep::backend::test {
namespace {

using graph::Graph;
using graph::NodeId;

constexpr graph::Convolution kernel3{.kernel = 3, .stride = 1, .padding = 1};

TEST(FeatureMap, EveryElementBelongsToOneImageChannelAndPixel) {
  for (const MapLayout layout : {MapLayout::planar, MapLayout::blocked8, MapLayout::blocked16,
                                 MapLayout::channels_last, MapLayout::blocked32x32}) {
    SCOPED_TRACE(static_cast<int>(layout));
    const FeatureMap map{.images = 70, .shape = {40, 2, 3}, .layout = layout};
    std::vector<int> uses(map.elements());
    for (std::int64_t image = 0; image < map.images; ++image)
      for (std::int64_t channel = 0; channel < map.padded_channels(); ++channel)
        for (std::int64_t pixel = 0; pixel < map.shape.pixels(); ++pixel)
          ++uses.at(static_cast<std::size_t>(map.index(image, channel, pixel)));
    EXPECT_EQ(std::accumulate(uses.begin(), uses.end(), 0), static_cast<int>(uses.size()));
    EXPECT_EQ(uses, std::vector<int>(uses.size(), 1));
    std::int64_t in_planes = 0;
    for (std::int64_t image_block = 0; image_block < map.image_blocks(); ++image_block)
      in_planes += map.blocks() * map.plane(image_block);
    EXPECT_EQ(in_planes, static_cast<std::int64_t>(uses.size()));
    // The last pixel of the last block can be read for all images of a block.
    const std::int64_t last = map.image_blocks() - 1;
    const std::int64_t pixel = map.plane_offset(last, map.blocks() - 1) +
                               (map.shape.pixels() - 1) * map.pixel_stride(last);
    EXPECT_EQ(map.bytes(), static_cast<std::size_t>(pixel + map.images_per_block() * map.lanes()) *
                               core::size_of(map.type));
  }
}

/// A strided residual block with a projection, and operations that are not fused.
Graph residual_with(const graph::Operation& norm) {
  Graph graph("residual");
  const auto convolution = [&](const std::string& name, NodeId x, std::int64_t channels,
                               graph::Convolution operation) {
    return graph.append(name + ".norm", norm, {graph.convolution(name, x, channels, operation)});
  };
  NodeId x = graph.input({3, 7, 6});
  x = graph.relu("stem.relu", convolution("stem", x, 33, kernel3));
  NodeId y = graph.relu("relu1", convolution("conv1", x, 48, {3, 2, 1}));
  y = convolution("conv2", y, 48, kernel3);
  x = convolution("shortcut", x, 48, {.kernel = 1, .stride = 2});
  x = graph.relu("relu2", graph.add("add", y, x));
  x = graph.add("unfused", graph.convolution("conv3", x, 48, {3, 1, 1, true}), x);
  x = graph.global_average_pool("pool", graph.relu("relu3", x));
  graph.softmax_cross_entropy("loss", graph.linear("linear", x, 5), {});
  graph.seal();
  return graph;
}

Graph residual() { return residual_with(graph::BatchNorm{}); }
Graph group_normed() { return residual_with(graph::GroupNorm{.groups = 3}); }

/// Overlapping max-pooling, dropout, and a classifier that reads all pixels.
Graph pooled() {
  Graph graph("pooled");
  NodeId x = graph.convolution("stem", graph.input({3, 8, 7}), 40, {5, 2, 2, true});
  x = graph.max_pool("pool", x, {.kernel = 3, .stride = 1, .padding = 1});
  x = graph.append("drop", graph::Dropout{.probability = 0.3f, .layer = 1}, {x});
  x = graph.convolution("conv", x, 32, kernel3);
  x = graph.flatten("flatten", graph.max_pool("pool2", x, {.kernel = 2, .stride = 2}));
  graph.softmax_cross_entropy("loss", graph.linear("linear", x, 7), {});
  graph.seal();
  return graph;
}

PlanOptions options_for(std::int64_t batch, Mode mode = Mode::training,
                        ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::amx) {
  return {.batch = batch,
          .precision = core::Precision::bf16,
          .mode = mode,
          .convolution_algorithm = algorithm,
          .normalisation = cifar10_normalisation};
}

/// Returns true if a convolution processes maps with blocks of images.
bool has_blocked_maps(const Replica& replica) {
  for (const OperationChoice& choice : replica.plan->choices()) {
    if (choice.implementation.ends_with("blocked maps")) return true;
  }
  return false;
}

class BlockedMaps : public testing::TestWithParam<Graph (*)()> {};

TEST_P(BlockedMaps, ForwardAndBackwardEqualTheReference) {
  const Graph graph = GetParam()();
  using enum ConvolutionAlgorithm;
  for (const auto& [batch, threads, algorithm] :
       std::initializer_list<std::tuple<std::int64_t, int, ConvolutionAlgorithm>>{
           {32, 1, amx},
           {32, 3, amx},
           {96, 2, amx},
           {32, 3, winograd_bf16},
           {96, 2, automatic},
           {33, 2, amx},
           {7, 1, amx},
           {50, 3, winograd_bf16},
           {50, 2, automatic},
           {33, 8, winograd_bf16},
           {32, 3, winograd_int16},
           {50, 2, winograd_int16}}) {
    SCOPED_TRACE(testing::Message()
                 << batch << " images, " << threads << " threads, " << core::name(algorithm));
    const Batch images = random_batch(graph, batch, 7);
    Replica reference(DeviceKind::reference, 1, graph,
                      {.batch = batch, .normalisation = cifar10_normalisation});
    Replica replica(DeviceKind::cpu, threads, graph, options_for(batch, Mode::training, algorithm));
    // Without bfloat16 instructions, the automatic choice has no algorithm for such maps.
    if (algorithm != automatic || __builtin_cpu_supports("avx512bf16")) {
      EXPECT_TRUE(has_blocked_maps(replica)) << describe_choices(graph, *replica.plan);
    }
    for (Replica* one : {&reference, &replica}) one->step(images);
    expect_same_forward(graph, reference, replica, 3e-2);
    expect_same_gradients(graph, reference, replica, 0.2);
  }
}

TEST_P(BlockedMaps, InferenceOfPartialBatchesEqualsTheReference) {
  const Graph graph = GetParam()();
  const Batch images = random_batch(graph, 40, 8);
  Replica reference(DeviceKind::reference, 1, graph,
                    {.batch = 40, .mode = Mode::inference, .normalisation = cifar10_normalisation});
  Replica replica(DeviceKind::cpu, 2, graph, options_for(40, Mode::inference));
  EXPECT_TRUE(has_blocked_maps(replica));
  for (const std::int64_t count : {40, 5, 35, 40}) {
    const Batch some = part(graph, images, 40 - count, count);
    for (Replica* one : {&reference, &replica}) {
      one->upload(some);
      one->plan->forward();
    }
    expect_same_forward(graph, reference, replica, 3e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, BlockedMaps, testing::Values(residual, group_normed, pooled),
                         [](const auto& test) {
                           if (test.param == pooled) return "pooled";
                           return test.param == residual ? "residual" : "group_normed";
                         });

// A convolution that is not supported, here because it has few outputs, requires a layout that
// oneDNN supports.
TEST(BlockedMaps, NeedSupportInAllConvolutions) {
  Graph graph("few outputs");
  NodeId x = graph.convolution("stem", graph.input({3, 8, 8}), 32, kernel3);
  x = graph.convolution("few", graph.convolution("conv", x, 32, kernel3), 8, kernel3);
  x = graph.linear("linear", graph.global_average_pool("pool", x), 5);
  graph.softmax_cross_entropy("loss", x, {});
  graph.seal();
  const Replica replica(DeviceKind::cpu, 1, graph, options_for(32));
  EXPECT_FALSE(has_blocked_maps(replica)) << describe_choices(graph, *replica.plan);
}

}  // namespace
}  // namespace lockstep::backend::test
