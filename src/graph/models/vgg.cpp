// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations.hpp"
#include "models.hpp"

namespace lockstep::graph {

namespace {

// Entries of the lists below: `pool` is a 2x2 max-pool, any other value is the number of output
// channels of a convolution. A convolution precedes each max-pool.
constexpr std::int64_t pool = 0;

using Layers = std::initializer_list<std::int64_t>;

constexpr Layers layers16{64,   64,  pool, 128, 128,  pool, 256, 256, 256,
                          pool, 512, 512,  512, pool, 512,  512, 512, pool};

enum class Norm { none, batch_norm };

/// Appends the input and the layers "features.N"; returns the last node.
NodeId features(Graph& graph, Layers layers, Norm norm, const ModelOptions& options) {
  NodeId x = graph.input(options.image);
  int index = 0;  // index of the module, as in PyTorch's nn.Sequential
  const auto name = [&] { return fmt::format("features.{}", index++); };
  for (const std::int64_t* layer = layers.begin(); layer != layers.end(); ++layer) {
    x = graph.convolution(name(), x, *layer,
                          {.kernel = 3, .stride = 1, .padding = 1, .has_bias = true});
    if (norm == Norm::batch_norm) x = graph.batch_norm(name(), x);
    const std::string relu = name();
    if (layer + 1 == layers.end() || layer[1] != pool) {
      x = graph.relu(relu, x);
      continue;
    }
    ++layer;
    if (graph.node(x).output.height < 2 || graph.node(x).output.width < 2) {
      core::fail(
          core::ExitStatus::usage,
          fmt::format(
              "{} halves the image five times, and {} x {} is too small for that; use 32 x 32",
              graph.model(), options.image.height, options.image.width));
    }
    x = relu_and_pool(graph, relu, name(), x, {.kernel = 2, .stride = 2}, options);
  }
  return x;
}

/// Appends the loss and seals the graph.
void finish(Graph& graph, NodeId scores, const ModelOptions& options) {
  graph.softmax_cross_entropy("loss", scores, {.label_smoothing = options.label_smoothing});
  graph.seal();
}

/// Returns VGG (Simonyan and Zisserman, 2014) with batch norm and one linear layer, the variant
/// used for CIFAR-10. Modules are named "features.N" and "classifier". Throws `Error` (usage) if
/// the image is too small.
Graph vgg(const char* name, Layers layers, const ModelOptions& options) {
  Graph graph(name);
  NodeId x = features(graph, layers, Norm::batch_norm, options);
  x = graph.global_average_pool("avgpool", x);
  finish(graph, graph.linear("classifier", x, options.classes), options);
  return graph;
}

Graph vgg11(const ModelOptions& options) {
  return vgg("vgg11", {64, pool, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool},
             options);
}

Graph vgg13(const ModelOptions& options) {
  return vgg("vgg13",
             {64, 64, pool, 128, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool},
             options);
}

Graph vgg16(const ModelOptions& options) { return vgg("vgg16", layers16, options); }

Graph vgg19(const ModelOptions& options) {
  return vgg("vgg19", {64,  64,  pool, 128, 128,  pool, 256, 256, 256, 256, pool,
                       512, 512, 512,  512, pool, 512,  512, 512, 512, pool},
             options);
}

/// Returns VGG-16 for ImageNet, without batch norm and with a classifier of three linear layers and
/// dropout. Modules have torchvision's names ("features.N", "classifier.N"). Throws `Error` (usage)
/// if the images are not 224 x 224.
Graph vgg16_imagenet(const ModelOptions& options) {
  if (options.image.height != 224 || options.image.width != 224) {
    core::fail(
        core::ExitStatus::usage,
        fmt::format("vgg16-imagenet reads images of 224 x 224 pixels, not {} x {}; use vgg16",
                    options.image.height, options.image.width));
  }
  Graph graph("vgg16-imagenet");
  NodeId x = features(graph, layers16, Norm::none, options);
  // torchvision's adaptive average pooling to 7 x 7 is the identity for images of this size.
  x = graph.flatten("flatten", x);
  for (const std::uint32_t layer : {0u, 1u}) {
    x = graph.linear(fmt::format("classifier.{}", 3 * layer), x, 4096);
    x = graph.relu(fmt::format("classifier.{}", 3 * layer + 1), x);
    x = graph.append(fmt::format("classifier.{}", 3 * layer + 2),
                     Dropout{.probability = 0.5f, .layer = layer}, {x});
  }
  finish(graph, graph.linear("classifier.6", x, options.classes), options);
  return graph;
}

}  // namespace

std::span<const Model> vggs() {
  static constexpr std::array models{
      Model{"vgg11", vgg11}, Model{"vgg13", vgg13},
      Model{"vgg16", vgg16}, Model{"vgg16-imagenet", vgg16_imagenet},
      Model{"vgg19", vgg19},
  };
  return models;
}

}  // namespace lockstep::graph
