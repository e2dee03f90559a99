// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/layer.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::graph {
namespace {

using core::ImageShape;

TEST(Layer, ParsesEveryKind) {
  const Layer conv = parse_layer("conv:3-128,k3,s2,p1@256x224x112");
  EXPECT_EQ(conv.batch, 256);
  EXPECT_EQ(conv.input, (ImageShape{3, 224, 112}));
  EXPECT_EQ(conv.output, (ImageShape{128, 112, 56}));
  EXPECT_TRUE(conv.operation.get_if<Convolution>()->has_bias);
  const Layer pool = parse_layer("maxpool:k2@4x3x8x6");
  EXPECT_EQ(pool.operation.get_if<MaxPool>()->stride, 2) << "the default is the kernel size";
  EXPECT_EQ(pool.output, (ImageShape{3, 4, 3}));
  EXPECT_EQ(parse_layer("relu@4x3x8x6").output, (ImageShape{3, 8, 6}));
  EXPECT_EQ(parse_layer("batchnorm@4x3x8x6").output, (ImageShape{3, 8, 6}));
  const Layer linear = parse_layer("linear:25088-4096@32");
  EXPECT_EQ(linear.batch, 32);
  EXPECT_EQ(linear.input, (ImageShape{25088, 1, 1}));
  EXPECT_EQ(linear.output, (ImageShape{4096, 1, 1}));
}

TEST(Layer, AttributesMayHaveAnyOrder) {
  const Layer expected = parse_layer("conv:3-8,k3,s2,p1@2x8x8");
  for (const char* text : {"conv:3-8,k3,p1,s2@2x8x8", "conv:k3,3-8,s2,p1@2x8x8",
                           "conv:p1,s2,k3,3-8@2x8x8", "conv:s2,3-8,p1,k3@2x8x8"}) {
    const Layer layer = parse_layer(text);
    const auto& convolution = *layer.operation.get_if<Convolution>();
    EXPECT_EQ(layer.input, expected.input) << text;
    EXPECT_EQ(layer.output, expected.output) << text;
    EXPECT_EQ(convolution.kernel, 3) << text;
    EXPECT_EQ(convolution.stride, 2) << text;
    EXPECT_EQ(convolution.padding, 1) << text;
  }
  EXPECT_EQ(parse_layer("maxpool:s1,k2@4x3x8x6").output, (ImageShape{3, 7, 5}));
}

TEST(Layer, ErrorsHaveTheReason) {
  const auto expect_reason = [](const char* text, const char* reason) {
    SCOPED_TRACE(text);
    expect_error(core::ExitStatus::usage, {reason}, [&] { parse_layer(text); });
  };
  expect_reason("avgpool:k2@4x3x8x6", "'avgpool' is no kind of layer");
  expect_reason("maxpool:s2@4x3x8x6", "kK is missing");
  expect_reason("conv:k3@4x8x8", "IN-OUT is missing");
  expect_reason("conv:3-8,k3,q1@4x8x8", "',q1' is unexpected");
  expect_reason("conv:k3,3-8,k5@4x8x8", "',k5' is unexpected");
  expect_reason("relu@3x8x6", "NxCxHxW is missing or has another form");
  expect_reason("maxpool:k0@4x3x8x6", "K is 0, not from 1 to 15");
  expect_reason("conv:3-8,k1025@4x8x8", "K is 1025, not from 1 to 1024");
  expect_reason("maxpool:p2,k3@4x3x8x6", "its padding is above half its kernel");
  expect_reason("linear:99999999999-4@2", "IN is 99999999999, not from 1 to 2147483647");
}

TEST(Layer, ParsesLists) {
  const auto layers = parse_layers("relu@4x3x8x6+linear:8-4@2");
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].text, "relu@4x3x8x6");
  EXPECT_EQ(layers[1].text, "linear:8-4@2");
}

TEST(Layer, RefusesWhatIsNoLayer) {
  for (const char* text : {"",
                           "relu",
                           "relu@",
                           "relu@4x3x8",
                           "relu@0x3x8x6",
                           "relu@4x3x8x-6",
                           "relu:k3@4x3x8x6",
                           "relu:@4x3x8x6",
                           "conv:3-8,k3,@4x8x8",
                           "conv:3-8:k3@4x8x8",
                           "conv:3-8@4x8x8,k3",
                           "conv,3-8,k3@4x8x8",
                           "gelu@4x3x8x6",
                           "conv:3-128@4x8x8",
                           "conv:k3@4x8x8",
                           "conv:3-0,k3@4x8x8",
                           "conv:3-8,k3,k5@4x8x8",
                           "conv:3-8,k3,q1@4x8x8",
                           "conv:3-8,k3,s0@4x8x8",
                           "conv:3-8,k9@4x8x8",
                           "conv:3-8,k3@4x3x8x8",
                           "maxpool:s2@4x3x8x6",
                           "maxpool:k2,p2@4x3x8x6",
                           "linear:8-4@2x2",
                           "linear:8-4,k3@2",
                           "relu:3-4@4x3x8x6",
                           "linear:99999999999-4@2",
                           "relu@2147483647x2147483647x2147483647x2147483647",
                           "linear:2147483647-2147483647@1",
                           "conv:1-1,k2147483647@1x1x1",
                           "maxpool:k16@1x1x64x64",
                           "conv:3-8,k9@2x4x4"}) {
    SCOPED_TRACE(text);
    expect_error(core::ExitStatus::usage, {std::string("'") + text + "' is not a layer"},
                 [&] { parse_layer(text); });
  }
}

TEST(Layer, StackContainsTheLayerSeveralTimes) {
  const Graph graph = stack_layers(parse_layer("conv:8-8,k3,p1@2x6x6"), 3);
  EXPECT_TRUE(graph.is_whole());
  int found = 0;
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    if (graph.nodes()[id].name.rfind("layer.", 0) != 0) continue;
    ++found;
    EXPECT_EQ(graph.cost(static_cast<NodeId>(id)).backward_data_flops, 2. * 8 * 36 * 8 * 9)
        << "the input of every layer needs a gradient, also that of the first";
  }
  EXPECT_EQ(found, 3);
}

TEST(Layer, ConvolutionOfFewChannelsReadsTheImages) {
  const Graph first = stack_layers(parse_layer("conv:3-8,k3,p1@2x6x6"), 1);
  EXPECT_EQ(first.image(), (ImageShape{3, 6, 6}));
  EXPECT_EQ(first.node(1).name, "layer.0");
  EXPECT_EQ(first.cost(1).backward_data_flops, 0);
  EXPECT_EQ(stack_layers(parse_layer("conv:4-8,k3,p1@2x6x6"), 1).image().channels, 4);
  EXPECT_EQ(stack_layers(parse_layer("conv:5-8,k3,p1@2x6x6"), 1).image().channels, 1);
  EXPECT_EQ(stack_layers(parse_layer("conv:8-8,k3,p1@2x6x6"), 1).image().channels, 1);
  EXPECT_EQ(stack_layers(parse_layer("conv:3-3,k3,p1@2x6x6"), 2).image().channels, 1);
}

TEST(Layer, StackRefusesLayersThatChangeTheShape) {
  EXPECT_THROW(stack_layers(parse_layer("linear:8-4@2"), 2), core::Error);
  EXPECT_NO_THROW(stack_layers(parse_layer("linear:8-4@2"), 1));
}

}  // namespace
}  // namespace lockstep::graph
