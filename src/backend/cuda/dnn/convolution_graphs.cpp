// SPDX-License-Identifier: BSD-3-Clause
#include "convolution_graphs.hpp"

#include <fmt/format.h>

#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations/convolution.hpp"

namespace lockstep::backend::cuda {
namespace {

namespace tensor = convolution_tensor;

constexpr GraphNature products{.has_products = true, .has_fused_sums = false};

Extents input_of(const ConvolutionShape& shape) {
  return {shape.images, shape.in_channels, shape.in_height, shape.in_width};
}

Extents output_of(const ConvolutionShape& shape) {
  return {shape.images, shape.out_channels, shape.out_height(), shape.out_width()};
}

Extents weights_of(const ConvolutionShape& shape) {
  return {shape.out_channels, shape.in_channels, shape.kernel, shape.kernel};
}

Window window_of(const ConvolutionShape& shape) { return {shape.stride, shape.padding}; }

std::string key_of(std::string_view what, const ConvolutionShape& s, core::Precision precision) {
  return fmt::format("{} n{} c{} h{} w{} k{} r{} stride{} pad{} {}", what, s.images, s.in_channels,
                     s.in_height, s.in_width, s.out_channels, s.kernel, s.stride, s.padding,
                     core::name(precision));
}

/// Returns the planned graph. Throws `Error` (usage) if cuDNN has no engine for it; the message
/// names the convolution.
std::shared_ptr<const DnnGraph> demand(DnnPlanner& planner, core::Precision precision,
                                       const GraphRecipe& recipe) {
  const PlannedGraph& planned = planner.plan(recipe, precision, products);
  if (planned.graph == nullptr)
    core::fail(core::ExitStatus::usage,
               fmt::format("cuDNN has no engine on {} for {}: {}; use another --precision",
                           planner.target().info().name, recipe.key, planned.refusal));
  return planned.graph;
}

/// cuDNN supports two forms of fused sums: one node that computes both (genstats), which its
/// float16 kernels support, and two reduction nodes, which runtime-compiled engines fuse with a
/// convolution of any data type.
enum class SumsKind { one_node, reductions };

PlannedGraph with_sums(DnnPlanner& planner, const ConvolutionShape& shape,
                       core::Precision precision, SumsKind kind) {
  const bool is_one_node = kind == SumsKind::one_node;
  const GraphNature nature{.has_products = true, .has_fused_sums = true, .has_alternative = true};
  const core::DataType type = activation_type(precision);
  const auto define = [=](OperationGraph& graph) {
    const auto x = graph.input(tensor::x, input_of(shape), type);
    const auto weights = graph.input(tensor::weights, weights_of(shape), type);
    const auto y = graph.convolution(x, weights, window_of(shape));
    graph.output(y, tensor::y, type);
    OperationGraph::ChannelSums sums{};
    if (is_one_node) {
      sums = graph.channel_sums(y);
    } else {
      const auto squares = graph.pointwise(Pointwise::multiply, y, y);
      sums = {graph.channel_sum(y, shape.out_channels),
              graph.channel_sum(squares, shape.out_channels)};
    }
    constexpr auto zeroed = OperationGraph::PortKind::zeroed_output;
    graph.output(sums.sum, tensor::sums, core::DataType::float32, zeroed);
    graph.output(sums.squares, tensor::squares, core::DataType::float32, zeroed);
  };
  const auto* const what = is_one_node ? "convolution+sums" : "convolution+reductions";
  return planner.plan({key_of(what, shape, precision), define}, precision, nature);
}

}  // namespace

ConvolutionShape make_convolution_shape(const graph::Convolution& operation, std::int64_t images,
                                        const core::ImageShape& input, std::int64_t out_channels) {
  return {.images = images,
          .in_channels = input.channels,
          .in_height = input.height,
          .in_width = input.width,
          .out_channels = out_channels,
          .kernel = operation.kernel,
          .stride = operation.stride,
          .padding = operation.padding};
}

PlannedGraph convolution_with_sums(DnnPlanner& planner, const ConvolutionShape& shape,
                                   core::Precision precision) {
  PlannedGraph best;
  if (precision == core::Precision::fp16) {
    best = with_sums(planner, shape, precision, SumsKind::one_node);
    // Not timed: there is nothing to compare.
    const bool is_final = planner.planning() != Planning::requests;
    if (is_final && best.graph != nullptr && best.graph->seconds() == 0) return best;
  }
  const PlannedGraph other = with_sums(planner, shape, precision, SumsKind::reductions);
  if (best.graph == nullptr) return other;
  const bool is_faster = other.graph != nullptr && other.graph->seconds() > 0 &&
                         other.graph->seconds() < best.graph->seconds();
  return is_faster ? other : best;
}

std::shared_ptr<const DnnGraph> convolution_forward(DnnPlanner& planner,
                                                    const ConvolutionShape& shape,
                                                    core::Precision precision, BiasVector bias) {
  const bool adds_bias = bias == BiasVector::added;
  const core::DataType type = activation_type(precision);
  const auto define = [=](OperationGraph& graph) {
    const auto x = graph.input(tensor::x, input_of(shape), type);
    const auto weights = graph.input(tensor::weights, weights_of(shape), type);
    auto y = graph.convolution(x, weights, window_of(shape));
    if (adds_bias) {
      const Extents vector{1, shape.out_channels, 1, 1};
      y = graph.pointwise(Pointwise::add, y, graph.input(tensor::bias, vector, type));
    }
    graph.output(y, tensor::y, type);
  };
  const auto* const what = adds_bias ? "convolution+bias" : "convolution";
  return demand(planner, precision, {key_of(what, shape, precision), define});
}

std::shared_ptr<const DnnGraph> convolution_backward_data(DnnPlanner& planner,
                                                          const ConvolutionShape& shape,
                                                          core::Precision precision) {
  const core::DataType type = activation_type(precision);
  const auto define = [=](OperationGraph& graph) {
    const auto dy = graph.input(tensor::dy, output_of(shape), type);
    const auto weights = graph.input(tensor::weights, weights_of(shape), type);
    graph.output(graph.convolution_backward_data(dy, weights, input_of(shape), window_of(shape)),
                 tensor::dx, type);
  };
  return demand(planner, precision,
                {key_of("convolution-backward-data", shape, precision), define});
}

std::shared_ptr<const DnnGraph> convolution_backward_weights(DnnPlanner& planner,
                                                             const ConvolutionShape& shape,
                                                             core::Precision precision) {
  const core::DataType type = activation_type(precision);
  const auto define = [=](OperationGraph& graph) {
    const auto dy = graph.input(tensor::dy, output_of(shape), type);
    const auto x = graph.input(tensor::x, input_of(shape), type);
    graph.output(graph.convolution_backward_weights(dy, x, weights_of(shape), window_of(shape)),
                 tensor::dweights, type);
  };
  return demand(planner, precision,
                {key_of("convolution-backward-weights", shape, precision), define});
}

}  // namespace lockstep::backend::cuda
