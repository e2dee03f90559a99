#include "batch_norm_graphs.hpp"

#include <fmt/format.h>

#include <string>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {
namespace {

namespace tensor = batch_norm_tensor;

constexpr core::DataType float32 = core::DataType::float32;
constexpr GraphNature normalisation{};

Extents map_of(const BatchNormShape& shape) {
  return {shape.images, shape.channels, shape.height, shape.width};
}

Extents vector_of(const BatchNormShape& shape) { return {1, shape.channels, 1, 1}; }

std::string sizes(const BatchNormShape& shape, core::Precision precision) {
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

}  // namespace

PlannedGraph batch_norm_forward(DnnPlanner& planner, const BatchNormShape& shape,
                                core::Precision precision, BatchNormTail tail, float epsilon,
                                float momentum) {
  const core::DataType type = activation_type(precision);
  const Extents map = map_of(shape), vector = vector_of(shape);
  const std::string key = fmt::format("{} {} epsilon{} momentum{}", name(tail),
                                      sizes(shape, precision), epsilon, momentum);
  return planner.plan(key, precision, normalisation, [&](OperationGraph& graph) {
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
  });
}

PlannedGraph batch_norm_backward(DnnPlanner& planner, const BatchNormShape& shape,
                                 core::Precision precision, const BatchNormGradientFlow& flow) {
  const bool adds = flow.incoming == IncomingGradients::two;
  const bool masks = flow.mask == ReluMask::from_output;
  const bool forks = flow.fork == GradientFork::written;
  core::check(!forks || adds || masks, "a fork of an unchanged gradient is the gradient itself");
  const core::DataType type = activation_type(precision);
  const Extents map = map_of(shape), vector = vector_of(shape);
  const std::string key =
      fmt::format("{}{}batch-norm-backward{} {}", adds ? "add+" : "", masks ? "mask+" : "",
                  forks ? "+fork" : "", sizes(shape, precision));
  return planner.plan(key, precision, normalisation, [&](OperationGraph& graph) {
    auto dy = graph.input(tensor::dy, map, type);
    if (adds) dy = graph.pointwise(Pointwise::add, dy, graph.input(tensor::dy_more, map, type));
    if (masks) {
      const auto y = graph.input(tensor::y, map, type);
      const auto mask = graph.pointwise(Pointwise::is_greater, y, graph.constant(0));
      dy = graph.pointwise(Pointwise::multiply, dy, mask);
    }
    if (forks) graph.output(dy, tensor::masked_dy, type);
    const auto x = graph.input(tensor::x, map, type);
    const auto scale = graph.input(tensor::scale, vector, float32);
    const auto mean = graph.input(tensor::mean, vector, float32);
    const auto deviation = graph.input(tensor::inverse_deviation, vector, float32);
    const auto gradients = graph.batch_norm_backward(dy, x, scale, mean, deviation);
    graph.output(gradients.dx, tensor::dx, type);
    graph.output(gradients.dscale, tensor::dscale, float32);
    graph.output(gradients.dbias, tensor::dbias, float32);
  });
}

}  // namespace lockstep::backend::cuda
