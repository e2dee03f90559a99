#include <fmt/format.h>

#include <array>
#include <string>

#include "lockstep/graph/operations.hpp"
#include "models.hpp"

namespace lockstep::graph {

namespace {

/// Appends relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)). The shortcut is a 1x1 convolution
/// with `stride` and batch norm if the shape changes, the identity otherwise. The nodes of the
/// shortcut are appended first, so the backward pass computes their contribution to the gradient of
/// x last.
NodeId basic_block(Graph& graph, const std::string& name, NodeId x, std::int64_t channels,
                   std::int64_t stride, const char* shortcut) {
  NodeId identity = x;
  if (stride != 1 || graph.node(x).output.channels != channels) {
    const std::string prefix = fmt::format("{}.{}", name, shortcut);
    identity = graph.convolution(prefix + ".0", x, channels, {.kernel = 1, .stride = stride});
    identity = graph.batch_norm(prefix + ".1", identity);
  }
  NodeId y = graph.convolution(name + ".conv1", x, channels,
                               {.kernel = 3, .stride = stride, .padding = 1});
  y = graph.batch_norm(name + ".bn1", y);
  y = graph.relu(name + ".relu1", y);
  y = graph.convolution(name + ".conv2", y, channels, {.kernel = 3, .stride = 1, .padding = 1});
  y = graph.batch_norm(name + ".bn2", y);
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
                     Names names) {
  constexpr std::array<std::int64_t, 4> widths{64, 128, 256, 512};
  for (std::size_t stage = 0; stage < widths.size(); ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = basic_block(graph, fmt::format("layer{}.{}", stage + 1, block), x, widths[stage], stride,
                      names.shortcut);
    }
  }
  x = graph.global_average_pool("avgpool", x);
  x = graph.linear(names.classifier, x, options.classes);
  graph.softmax_cross_entropy("loss", x, {.label_smoothing = options.label_smoothing});
  graph.seal();
}

/// Returns the variant for 32x32 images.
Graph resnet_cifar(const char* model, const Blocks& blocks, const ModelOptions& options) {
  Graph graph(model);
  NodeId x = graph.input(options.image);
  x = graph.convolution("conv1", x, 64, {.kernel = 3, .stride = 1, .padding = 1});
  x = graph.batch_norm("bn1", x);
  x = graph.relu("relu", x);
  stages_and_head(graph, x, options, blocks, {.shortcut = "shortcut", .classifier = "linear"});
  return graph;
}

/// ResNet-18 (He et al., 2015) for 32x32 images: the first convolution is 3x3 with stride 1, without
/// a max-pool. Modules have the names of the widely used CIFAR implementation ("shortcut",
/// "linear").
Graph resnet18_cifar(const ModelOptions& options) {
  return resnet_cifar("resnet18-cifar", {2, 2, 2, 2}, options);
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
  x = graph.relu("relu", x);
  x = graph.max_pool("maxpool", x, {.kernel = 3, .stride = 2, .padding = 1});
  stages_and_head(graph, x, options, {2, 2, 2, 2}, {.shortcut = "downsample", .classifier = "fc"});
  return graph;
}

}  // namespace

std::span<const Model> resnets() {
  static constexpr std::array models{
      Model{"resnet18-cifar", resnet18_cifar},
      Model{"resnet18-imagenet", resnet18_imagenet},
      Model{"resnet34-cifar", resnet34_cifar},
  };
  return models;
}

}  // namespace lockstep::graph
