#include "convolution_graphs.hpp"

#include <fmt/format.h>

#include <string>

#include "lockstep/core/error.hpp"

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

/// The graph, or an `Error` that says which convolution the target cannot have.
std::shared_ptr<const DnnGraph> demand(DnnPlanner& planner, const std::string& key,
                                       core::Precision precision,
                                       const std::function<void(OperationGraph&)>& define) {
  const PlannedGraph& planned = planner.plan(key, precision, products, define);
  if (planned.graph == nullptr)
    core::fail(core::ExitStatus::usage,
               fmt::format("cuDNN has no engine on {} for {}: {}; use another --precision",
                           planner.target().info().name, key, planned.refusal));
  return planned.graph;
}

}  // namespace

std::shared_ptr<const DnnGraph> convolution_forward(DnnPlanner& planner,
                                                    const ConvolutionShape& shape,
                                                    core::Precision precision, BiasVector bias) {
  const bool adds_bias = bias == BiasVector::added;
  const core::DataType type = activation_type(precision);
  return demand(planner, key_of(adds_bias ? "convolution+bias" : "convolution", shape, precision),
                precision, [&](OperationGraph& graph) {
                  const auto x = graph.input(tensor::x, input_of(shape), type);
                  const auto weights = graph.input(tensor::weights, weights_of(shape), type);
                  auto y = graph.convolution(x, weights, window_of(shape));
                  if (adds_bias) {
                    const Extents vector{1, shape.out_channels, 1, 1};
                    y = graph.pointwise(Pointwise::add, y, graph.input(tensor::bias, vector, type));
                  }
                  graph.output(y, tensor::y, type);
                });
}

std::shared_ptr<const DnnGraph> convolution_backward_data(DnnPlanner& planner,
                                                          const ConvolutionShape& shape,
                                                          core::Precision precision) {
  const core::DataType type = activation_type(precision);
  return demand(planner, key_of("convolution-backward-data", shape, precision), precision,
                [&](OperationGraph& graph) {
                  const auto dy = graph.input(tensor::dy, output_of(shape), type);
                  const auto weights = graph.input(tensor::weights, weights_of(shape), type);
                  graph.output(graph.convolution_backward_data(dy, weights, input_of(shape),
                                                               window_of(shape)),
                               tensor::dx, type);
                });
}

std::shared_ptr<const DnnGraph> convolution_backward_weights(DnnPlanner& planner,
                                                             const ConvolutionShape& shape,
                                                             core::Precision precision) {
  const core::DataType type = activation_type(precision);
  return demand(
      planner, key_of("convolution-backward-weights", shape, precision), precision,
      [&](OperationGraph& graph) {
        const auto dy = graph.input(tensor::dy, output_of(shape), type);
        const auto x = graph.input(tensor::x, input_of(shape), type);
        graph.output(graph.convolution_backward_weights(dy, x, weights_of(shape), window_of(shape)),
                     tensor::dweights, type);
      });
}

}  // namespace lockstep::backend::cuda
