// SPDX-License-Identifier: BSD-3-Clause
#include "batch_norm_graphs.hpp"

#include <fmt/format.h>

#include <string>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

namespace tensor = batch_norm_tensor;

constexpr core::DataType float32 = core::DataType::float32;
constexpr GraphNature normalisation{.has_alternative = true, .rounds_inside = true};

Extents map_of(const BatchNormShape& shape) {
  return {shape.images, shape.channels, shape.height, shape.width};
}

Extents vector_of(const BatchNormShape& shape) { return {1, shape.channels, 1, 1}; }

std::string sizes_of(const BatchNormShape& shape, core::Precision precision) {
  return fmt::format("n{} c{} h{} w{} {}", shape.images, shape.channels, shape.height, shape.width,
                     core::name(precision));
}

std::string_view name(BatchNormTail tail) {
  switch (tail) {
    case BatchNormTail::none: return "batch-norm";
    case BatchNormTail::relu: return "batch-norm+relu";
    case BatchNormTail::add_relu: return "batch-norm+add+relu";
  }
  return {};
}

std::string_view name(ReluMask mask) {
  switch (mask) {
    case ReluMask::none: return "";
    case ReluMask::from_output: return "mask+";
    case ReluMask::recomputed: return "remask+";
  }
  return {};
}

/// Adds the input dy [+ dy_more], set to 0 where y <= 0 if the mask comes from the output.
OperationGraph::Tensor incoming(OperationGraph& graph, const Extents& map, core::DataType type,
                                const BatchNormGradientFlow& flow) {
  auto dy = graph.input(tensor::dy, map, type);
  if (flow.has_two_gradients)
    dy = graph.pointwise(Pointwise::add, dy, graph.input(tensor::dy_more, map, type));
  if (flow.mask == ReluMask::from_output) {
    const auto y = graph.input(tensor::y, map, type);
    const auto mask = graph.pointwise(Pointwise::is_greater, y, graph.constant(0));
    dy = graph.pointwise(Pointwise::multiply, dy, mask);
  }
  return dy;
}

}  // namespace

PlannedGraph batch_norm_forward(DnnPlanner& planner, const BatchNormShape& shape,
                                core::Precision precision, BatchNormTail tail, float epsilon,
                                float momentum) {
  const core::DataType type = activation_type(precision);
  const Extents map = map_of(shape), vector = vector_of(shape);
  const auto define = [=](OperationGraph& graph) {
    const auto x = graph.input(tensor::x, map, type);
    const auto scale = graph.input(tensor::scale, vector, float32);
    const auto bias = graph.input(tensor::bias, vector, float32);
    const auto running_mean = graph.input(tensor::running_mean, vector, float32);
    const auto running_variance = graph.input(tensor::running_variance, vector, float32);
    const auto norm =
        graph.batch_norm(x, scale, bias, running_mean, running_variance, epsilon, momentum);
    graph.output(norm.mean, tensor::mean, float32);
    graph.output(norm.inverse_deviation, tensor::inverse_deviation, float32);
    graph.output(norm.running_mean, tensor::next_running_mean, float32);
    graph.output(norm.running_variance, tensor::next_running_variance, float32);
    auto y = norm.y;
    if (tail == BatchNormTail::add_relu)
      y = graph.pointwise(Pointwise::add, y, graph.input(tensor::residual, map, type));
    if (tail != BatchNormTail::none) y = graph.pointwise(Pointwise::relu, y);
    graph.output(y, tensor::y, type);
  };
  const std::string key = fmt::format("{} {} epsilon{} momentum{}", name(tail),
                                      sizes_of(shape, precision), epsilon, momentum);
  return planner.plan({key, define}, precision, normalisation);
}

PlannedGraph batch_norm_backward(DnnPlanner& planner, const BatchNormShape& shape,
                                 core::Precision precision, const BatchNormGradientFlow& flow) {
  core::check(!flow.writes_masked || flow.has_two_gradients || flow.mask != ReluMask::none,
              "a fork of an unchanged gradient is the gradient itself");
  core::check(!flow.writes_masked || flow.mask != ReluMask::recomputed,
              "a residual's sum is in memory");
  const core::DataType type = activation_type(precision);
  const Extents map = map_of(shape), vector = vector_of(shape);
  const auto define = [=](OperationGraph& graph) {
    auto dy = incoming(graph, map, type, flow);
    if (flow.writes_masked) graph.output(dy, tensor::masked_dy, type);
    const auto x = graph.input(tensor::x, map, type);
    const auto scale = graph.input(tensor::scale, vector, float32);
    const auto mean = graph.input(tensor::mean, vector, float32);
    const auto deviation = graph.input(tensor::inverse_deviation, vector, float32);
    if (flow.mask == ReluMask::recomputed) {
      const auto bias = graph.input(tensor::bias, vector, float32);
      const auto y = graph.batch_norm_apply(x, mean, deviation, scale, bias);
      dy = graph.pointwise(Pointwise::relu_backward, dy, y);
    }
    const auto gradients = graph.batch_norm_backward(dy, x, scale, mean, deviation);
    graph.output(gradients.dx, tensor::dx, type);
    graph.output(gradients.dscale, tensor::dscale, float32);
    graph.output(gradients.dbias, tensor::dbias, float32);
  };
  const std::string key =
      fmt::format("{}{}batch-norm-backward{} {}", flow.has_two_gradients ? "add+" : "",
                  name(flow.mask), flow.writes_masked ? "+fork" : "", sizes_of(shape, precision));
  return planner.plan({key, define}, precision, normalisation);
}

}  // namespace lockstep::backend::cuda
