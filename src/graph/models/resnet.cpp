// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <array>
#include <string>

#include "lockstep/graph/operations.hpp"
#include "models.hpp"

namespace lockstep::graph {

namespace {

/// Appends relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)), where bn1 and bn2 are the operation
/// `norm`. The shortcut is a 1x1 convolution with `stride` and a `norm` if the shape changes, the
/// identity otherwise. The nodes of the shortcut are appended first, so the backward pass computes
/// their contribution to the gradient of x last.
NodeId basic_block(Graph& graph, const std::string& name, NodeId x, std::int64_t channels,
                   std::int64_t stride, const char* shortcut, const Operation& norm) {
  NodeId identity = x;
  if (stride != 1 || graph.node(x).output.channels != channels) {
    const std::string prefix = fmt::format("{}.{}", name, shortcut);
    identity = graph.convolution(prefix + ".0", x, channels, {.kernel = 1, .stride = stride});
    identity = graph.append(prefix + ".1", norm, {identity});
  }
  NodeId y = graph.convolution(name + ".conv1", x, channels,
                               {.kernel = 3, .stride = stride, .padding = 1});
  y = graph.append(name + ".bn1", norm, {y});
  y = graph.relu(name + ".relu1", y);
  y = graph.convolution(name + ".conv2", y, channels, {.kernel = 3, .stride = 1, .padding = 1});
  y = graph.append(name + ".bn2", norm, {y});
  y = graph.add(name + ".add", y, identity);
  return graph.relu(name + ".relu2", y);
}

/// Number of basic blocks in each of the four stages.
using Blocks = std::array<int, 4>;

/// Names of the modules that differ between implementations.
struct Names {
  const char* shortcut;
  const char* classifier;
};

/// Appends four stages of basic blocks, then pooling, the classifier and the loss, and seals the
/// graph.
void stages_and_head(Graph& graph, NodeId x, const ModelOptions& options, const Blocks& blocks,
                     Names names, const Operation& norm = BatchNorm{}) {
  constexpr std::array<std::int64_t, 4> widths{64, 128, 256, 512};
  for (std::size_t stage = 0; stage < widths.size(); ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = basic_block(graph, fmt::format("layer{}.{}", stage + 1, block), x, widths[stage], stride,
                      names.shortcut, norm);
    }
  }
  x = graph.global_average_pool("avgpool", x);
  x = graph.linear(names.classifier, x, options.classes);
  graph.softmax_cross_entropy("loss", x, {.label_smoothing = options.label_smoothing});
  graph.seal();
}

/// Returns the variant for 32x32 images.
Graph resnet_cifar(const char* model, const Blocks& blocks, const ModelOptions& options,
                   const Operation& norm = BatchNorm{}) {
  Graph graph(model);
  NodeId x = graph.input(options.image);
  x = graph.convolution("conv1", x, 64, {.kernel = 3, .stride = 1, .padding = 1});
  x = graph.append("bn1", norm, {x});
  x = graph.relu("relu", x);
  stages_and_head(graph, x, options, blocks, {.shortcut = "shortcut", .classifier = "linear"},
                  norm);
  return graph;
}

/// ResNet-18 (He et al., 2015) for 32x32 images: the first convolution is 3x3 with stride 1,
/// without a max-pool. Modules have the names of the widely used CIFAR implementation ("shortcut",
/// "linear").
Graph resnet18_cifar(const ModelOptions& options) {
  return resnet_cifar("resnet18-cifar", {2, 2, 2, 2}, options);
}

/// `resnet18_cifar` with group norm of 32 groups (Wu and He, 2018) instead of batch norm. Modules
/// keep their names, as if PyTorch's GroupNorm were passed as the layer of normalisation.
Graph resnet18_gn_cifar(const ModelOptions& options) {
  return resnet_cifar("resnet18-gn-cifar", {2, 2, 2, 2}, options, GroupNorm{.groups = 32});
}

/// ResNet-34, which has more blocks per stage; otherwise as `resnet18_cifar`.
Graph resnet34_cifar(const ModelOptions& options) {
  return resnet_cifar("resnet34-cifar", {3, 4, 6, 3}, options);
}

/// ResNet-18 for ImageNet: the first convolution is 7x7 with stride 2, followed by a 3x3 max-pool.
/// Modules have torchvision's names ("downsample", "fc").
Graph resnet18_imagenet(const ModelOptions& options) {
  Graph graph("resnet18-imagenet");
  NodeId x = graph.input(options.image);
  x = graph.convolution("conv1", x, 64, {.kernel = 7, .stride = 2, .padding = 3});
  x = graph.batch_norm("bn1", x);
  x = relu_and_pool(graph, "relu", "maxpool", x, {.kernel = 3, .stride = 2, .padding = 1}, options);
  stages_and_head(graph, x, options, {2, 2, 2, 2}, {.shortcut = "downsample", .classifier = "fc"});
  return graph;
}

}  // namespace

std::span<const Model> resnets() {
  static constexpr std::array models{
      Model{"resnet18-cifar", resnet18_cifar},
      Model{"resnet18-gn-cifar", resnet18_gn_cifar},
      Model{"resnet18-imagenet", resnet18_imagenet},
      Model{"resnet34-cifar", resnet34_cifar},
  };
  return models;
}

}  // namespace lockstep::graph
