#include <fmt/format.h>

#include <initializer_list>

#include "lockstep/core/error.hpp"
#include "models.hpp"

namespace lockstep::graph {

namespace {

// Entries of the lists below: `pool` is a 2x2 max-pool, any other value is the number of output
// channels of a convolution.
constexpr std::int64_t pool = 0;

using Layers = std::initializer_list<std::int64_t>;

Graph vgg(const char* name, Layers layers, const ModelOptions& options) {
  Graph graph(name);
  NodeId x = graph.input(options.image);
  int index = 0;  // index of the module, as in PyTorch's nn.Sequential
  for (const std::int64_t channels : layers) {
    if (channels == pool) {
      if (graph.node(x).output.height < 2 || graph.node(x).output.width < 2) {
        core::fail(
            core::ExitStatus::usage,
            fmt::format(
                "{} halves the image five times, and {} x {} is too small for that; use 32 x 32",
                name, options.image.height, options.image.width));
      }
      x = graph.max_pool(fmt::format("features.{}", index++), x, {.kernel = 2, .stride = 2});
      continue;
    }
    x = graph.convolution(fmt::format("features.{}", index++), x, channels,
                          {.kernel = 3, .stride = 1, .padding = 1, .has_bias = true});
    x = graph.batch_norm(fmt::format("features.{}", index++), x);
    x = graph.relu(fmt::format("features.{}", index++), x);
  }
  x = graph.global_average_pool("avgpool", x);
  x = graph.linear("classifier", x, options.classes);
  graph.softmax_cross_entropy("loss", x, {.label_smoothing = options.label_smoothing});
  graph.seal();
  return graph;
}

}  // namespace

Graph vgg11(const ModelOptions& options) {
  return vgg("vgg11", {64, pool, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool},
             options);
}

Graph vgg13(const ModelOptions& options) {
  return vgg("vgg13",
             {64, 64, pool, 128, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool},
             options);
}

Graph vgg16(const ModelOptions& options) {
  return vgg(
      "vgg16",
      {64, 64, pool, 128, 128, pool, 256, 256, 256, pool, 512, 512, 512, pool, 512, 512, 512, pool},
      options);
}

Graph vgg19(const ModelOptions& options) {
  return vgg("vgg19", {64,  64,  pool, 128, 128,  pool, 256, 256, 256, 256, pool,
                       512, 512, 512,  512, pool, 512,  512, 512, 512, pool},
             options);
}

}  // namespace lockstep::graph
