// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/models.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "expect_error.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::graph {
namespace {

using testing::ElementsAre;

const Parameter& parameter(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.parameters(), name, &Parameter::name);
  if (found == graph.parameters().end()) throw std::out_of_range("no parameter " + name);
  return *found;
}

// Returns the number of parameters of a stage of two basic blocks from `in` to `out` channels: 3x3
// convolutions, batch norms with two parameters per channel and, if `in` and `out` differ, a
// projection.
constexpr std::size_t stage(std::size_t in, std::size_t out) {
  const std::size_t convolutions = 9 * (in * out + 3 * out * out) + (in != out ? in * out : 0);
  return convolutions + 2 * out * (in != out ? 5 : 4);
}
constexpr std::size_t stages = stage(64, 64) + stage(64, 128) + stage(128, 256) + stage(256, 512);

TEST(Models, Resnet18CifarHasElevenMillionParameters) {
  const Graph graph = make_model("resnet18-cifar", {});
  EXPECT_EQ(graph.parameter_count(), 11'173'962u);
  EXPECT_EQ(graph.parameter_count(), 27u * 64 + 2 * 64 + stages + 512 * 10 + 10);
  EXPECT_EQ(graph.classes(), 10);
  EXPECT_EQ(make_model("resnet18-cifar", {.classes = 100}).parameter_count(),
            11'173'962u + 90 * 513);
}

TEST(Models, Resnet18GnCifarHasTheParametersOfResnet18CifarAndNoStatistics) {
  const Graph graph = make_model("resnet18-gn-cifar", {});
  const Graph with_batch_norm = make_model("resnet18-cifar", {});
  ASSERT_EQ(graph.parameters().size(), with_batch_norm.parameters().size());
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    EXPECT_EQ(graph.parameters()[i].name, with_batch_norm.parameters()[i].name);
    EXPECT_EQ(graph.parameters()[i].shape, with_batch_norm.parameters()[i].shape);
  }
  EXPECT_TRUE(graph.statistics().empty());
}

TEST(Models, Resnet34CifarHasTwentyOneMillionParameters) {
  const Graph graph = make_model("resnet34-cifar", {});
  EXPECT_EQ(graph.parameter_count(), 21'282'122u);
  EXPECT_EQ(graph.parameters().size(), 110u) << "36 convolutions, 36 batch norms, linear layer";
  EXPECT_THAT(parameter(graph, "layer3.5.conv2.weight").shape, ElementsAre(256, 256, 3, 3));
  EXPECT_THAT(parameter(graph, "layer4.2.bn2.bias").shape, ElementsAre(512));
  EXPECT_THAT(parameter(graph, "layer4.0.shortcut.0.weight").shape, ElementsAre(512, 256, 1, 1));
  EXPECT_THROW(parameter(graph, "layer3.6.conv1.weight"), std::out_of_range);
}

TEST(Models, Resnet18ImagenetHasTorchvisionsParameters) {
  const Graph graph = make_model("resnet18-imagenet", {.classes = 1000, .image = {3, 224, 224}});
  EXPECT_EQ(graph.parameter_count(), 11'689'512u);
  EXPECT_EQ(graph.parameter_count(), 3u * 49 * 64 + 2 * 64 + stages + 512 * 1000 + 1000);
  // The side of 224 pixels is halved five times, as in torchvision.
  EXPECT_EQ(graph.node(parameter(graph, "layer4.1.conv2.weight").node).output,
            (core::ImageShape{512, 7, 7}));
}

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.name);
  return names;
}

/// Returns the number of parameters of a VGG network: 3x3 convolutions with bias, batch norms, one
/// linear layer.
std::size_t vgg_parameters(const std::vector<std::size_t>& widths) {
  std::size_t sum = 512 * 10 + 10;
  std::size_t in = 3;
  for (const std::size_t out : widths) {
    sum += 9 * in * out + out + 2 * out;
    in = out;
  }
  return sum;
}

TEST(Models, VggsHaveTheDocumentedNumbersOfParameters) {
  const std::size_t vgg11 = make_model("vgg11", {}).parameter_count();
  EXPECT_EQ(vgg11, vgg_parameters({64, 128, 256, 256, 512, 512, 512, 512}));
  EXPECT_EQ(vgg11, 9'231'114u);
  const std::size_t vgg13 = make_model("vgg13", {}).parameter_count();
  EXPECT_EQ(vgg13, vgg_parameters({64, 64, 128, 128, 256, 256, 512, 512, 512, 512}));
  EXPECT_EQ(vgg13, 9'416'010u);
  const std::size_t vgg16 = make_model("vgg16", {}).parameter_count();
  EXPECT_EQ(vgg16, vgg_parameters({64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512}));
  EXPECT_EQ(vgg16, 14'728'266u);
  const std::size_t vgg19 = make_model("vgg19", {}).parameter_count();
  EXPECT_EQ(vgg19, vgg_parameters({64, 64, 128, 128, 256, 256, 256, 256, 512, 512, 512, 512, 512,
                                   512, 512, 512}));
  EXPECT_EQ(vgg19, 20'040'522u);
}

TEST(Models, Vgg16ImagenetHasTorchvisionsParameters) {
  const core::ImageShape image{3, 224, 224};
  const Graph graph = make_model("vgg16-imagenet", {.classes = 1000, .image = image});
  EXPECT_EQ(graph.parameter_count(), 138'357'544u);
  std::vector<std::string> weights;
  for (const Parameter& one : graph.parameters()) {
    if (one.name.ends_with(".weight")) weights.push_back(one.name);
  }
  EXPECT_THAT(weights, ElementsAre("features.0.weight", "features.2.weight", "features.5.weight",
                                   "features.7.weight", "features.10.weight", "features.12.weight",
                                   "features.14.weight", "features.17.weight", "features.19.weight",
                                   "features.21.weight", "features.24.weight", "features.26.weight",
                                   "features.28.weight", "classifier.0.weight",
                                   "classifier.3.weight", "classifier.6.weight"));
  EXPECT_THAT(parameter(graph, "features.28.weight").shape, ElementsAre(512, 512, 3, 3));
  EXPECT_THAT(parameter(graph, "classifier.0.weight").shape, ElementsAre(4096, 7 * 7 * 512));
  EXPECT_THAT(parameter(graph, "classifier.6.bias").shape, ElementsAre(1000));
  EXPECT_TRUE(graph.statistics().empty());
  expect_error(core::ExitStatus::usage, {"224 x 224"}, [] { make_model("vgg16-imagenet", {}); });
}

TEST(Models, ParametersAreNamedAndShapedAsInPyTorch) {
  const Graph cifar = make_model("resnet18-cifar", {});
  EXPECT_THAT(parameter(cifar, "conv1.weight").shape, ElementsAre(64, 3, 3, 3));
  EXPECT_THAT(parameter(cifar, "layer1.0.bn1.weight").shape, ElementsAre(64));
  EXPECT_THAT(parameter(cifar, "layer2.0.shortcut.0.weight").shape, ElementsAre(128, 64, 1, 1));
  EXPECT_THAT(parameter(cifar, "layer2.0.shortcut.1.bias").shape, ElementsAre(128));
  EXPECT_THAT(parameter(cifar, "layer4.1.conv2.weight").shape, ElementsAre(512, 512, 3, 3));
  EXPECT_THAT(parameter(cifar, "linear.weight").shape, ElementsAre(10, 512));
  EXPECT_THROW(parameter(cifar, "layer1.0.shortcut.0.weight"), std::out_of_range);
  EXPECT_EQ(cifar.parameters().size(), 62u);  // 20 convolutions, 20 batch norms, one linear layer
  EXPECT_EQ(cifar.statistics().size(), 40u);

  const Graph imagenet = make_model("resnet18-imagenet", {.classes = 7, .image = {3, 64, 64}});
  EXPECT_THAT(parameter(imagenet, "conv1.weight").shape, ElementsAre(64, 3, 7, 7));
  EXPECT_THAT(parameter(imagenet, "layer3.0.downsample.0.weight").shape,
              ElementsAre(256, 128, 1, 1));
  EXPECT_THAT(parameter(imagenet, "fc.bias").shape, ElementsAre(7));

  const Graph vgg = make_model("vgg11", {});
  EXPECT_THAT(parameter(vgg, "features.0.bias").shape, ElementsAre(64));
  EXPECT_THAT(parameter(vgg, "features.25.weight").shape, ElementsAre(512, 512, 3, 3));
  EXPECT_THAT(parameter(vgg, "classifier.weight").shape, ElementsAre(10, 512));
}

TEST(Models, ForwardFlopsAreThoseOfTheShapes) {
  // Multiply-adds of resnet18-cifar, summed by the size of the feature maps. Stage 1 has four
  // convolutions with 64 channels. Each later stage has a first convolution that reads half as many
  // channels as it writes, three more 3x3 convolutions and the 1x1 projection.
  double products = 32. * 32 * 64 * 27 + 4 * (32. * 32 * 64 * 64 * 9);
  for (const auto& [side, channels] : {std::pair{16., 128.}, {8., 256.}, {4., 512.}}) {
    const double outputs = side * side * channels;
    products += outputs * (channels / 2) * 9 + 3 * outputs * channels * 9 + outputs * channels / 2;
  }
  products += 512 * 10;
  EXPECT_EQ(products, 555'422'720);
  const NodeCost cost = make_model("resnet18-cifar", {}).total_cost();
  // Batch norm, ReLU, addition and pooling count one operation per element.
  EXPECT_GE(cost.forward_flops, 2 * products);
  EXPECT_LE(cost.forward_flops, 2 * products * 1.005);
  EXPECT_EQ(cost.backward_weight_flops, 2 * products);
  // The gradient with respect to the images is not computed.
  EXPECT_NEAR(cost.backward_data_flops, cost.forward_flops - 2 * 32. * 32 * 64 * 27,
              1e-9 * products);
}

TEST(Models, AllCanBeMadeAndEndInALoss) {
  for (const std::string& name : model_names()) {
    const std::int64_t side = name == "vgg16-imagenet" ? 224 : 32;
    const core::ImageShape image{3, side, side};
    const Graph graph = make_model(name, {.classes = 3, .image = image, .label_smoothing = 0.1f});
    EXPECT_EQ(graph.model(), name);
    EXPECT_EQ(graph.classes(), 3);
    EXPECT_EQ(graph.image(), image);
    const auto* loss = graph.nodes().back().operation.get_if<SoftmaxCrossEntropy>();
    ASSERT_NE(loss, nullptr);
    EXPECT_EQ(loss->label_smoothing, 0.1f);
  }
}

TEST(SwapReluPool, PutsReluBehindEveryMaxPoolAndKeepsTheOrderOfTheParameters) {
  for (const auto& [name, side, count] :
       {std::tuple{"vgg16", 32, 5}, std::tuple{"vgg16-imagenet", 224, 5},
        std::tuple{"resnet18-imagenet", 64, 1}, std::tuple{"resnet18-cifar", 32, 0}}) {
    SCOPED_TRACE(name);
    const core::ImageShape image{3, side, side};
    const Graph graph = make_model(name, {.image = image});
    const Graph swapped = make_model(name, {.image = image, .swap_relu_pool = true});
    EXPECT_EQ(count, std::ranges::count_if(swapped.nodes(), [&](const Node& node) {
                return node.operation.is<Relu>() &&
                       swapped.node(node.inputs[0]).operation.is<MaxPool>();
              }));
    EXPECT_TRUE(std::ranges::is_permutation(names_of(swapped), names_of(graph)));
    ASSERT_EQ(swapped.parameters().size(), graph.parameters().size());
    for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
      EXPECT_EQ(swapped.parameters()[i].name, graph.parameters()[i].name);
      EXPECT_EQ(swapped.parameters()[i].offset, graph.parameters()[i].offset);
    }
    ASSERT_EQ(swapped.statistics().size(), graph.statistics().size());
    if (count > 0) {
      EXPECT_LT(swapped.total_cost().forward_values, graph.total_cost().forward_values);
    }
  }
}

TEST(Models, AnUnknownOneIsRefusedWithAListOfThoseThereAre) {
  expect_error(core::ExitStatus::usage, {"resnet50", "resnet18-cifar", "vgg16"},
               [] { make_model("resnet50", {}); });
}

TEST(Models, AnImageTooSmallForAVggIsRefused) {
  expect_error(core::ExitStatus::usage, {"16 x 16"}, [] {
    make_model("vgg11", {.image = {3, 16, 16}});
  });
}

}  // namespace
}  // namespace lockstep::graph
