#include <fmt/format.h>

#include <vector>

#include "lockstep/core/error.hpp"
#include "models.hpp"

namespace lockstep::graph {

namespace {

// Entries of the lists below: `pool` is a 2x2 max-pool, any other value is the number of output
// channels of a convolution.
constexpr std::int64_t pool = 0;

std::vector<std::int64_t> layers(int depth) {
  if (depth == 11) return {64, pool, 128, pool, 256, 256, pool, 512, 512, pool, 512, 512, pool};
  core::check(depth == 16, "VGG exists here with 11 and 16 layers");
  return {64,   64,  pool, 128, 128,  pool, 256, 256, 256,
          pool, 512, 512,  512, pool, 512,  512, 512, pool};
}

}  // namespace

Graph vgg(const ModelOptions& options, int depth) {
  Graph graph(fmt::format("vgg{}", depth));
  NodeId x = graph.input(options.image);
  int index = 0;  // index of the module, as in PyTorch's nn.Sequential
  for (const std::int64_t channels : layers(depth)) {
    if (channels == pool) {
      if (graph.node(x).output.height < 2 || graph.node(x).output.width < 2) {
        core::fail(
            core::ExitStatus::usage,
            fmt::format(
                "vgg{} halves the image five times, and {} x {} is too small for that; use 32 x 32",
                depth, options.image.height, options.image.width));
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

}  // namespace lockstep::graph
