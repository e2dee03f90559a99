// Properties of the operations, computed from shapes only. Memory-bound operations (ReLU, addition,
// pooling, batch norm) count one FLOP per input value in the forward pass and one in the backward
// pass.

#include "lockstep/graph/operations.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"

namespace lockstep::graph {

using core::check;
using core::ImageShape;

namespace {

/// Returns the extent of the output of a convolution or pooling along one axis; 0 if the window
/// does not fit.
std::int64_t windows(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding) {
  if (size + 2 * padding < kernel) return 0;
  return (size + 2 * padding - kernel) / stride + 1;
}

template <class Window>
ImageShape output_of(const Window& window, std::int64_t channels, ImageShape input) {
  return {channels, windows(input.height, window.kernel, window.stride, window.padding),
          windows(input.width, window.kernel, window.stride, window.padding)};
}

double elements(ImageShape shape) { return static_cast<double>(shape.elements()); }

/// Returns the cost of an operation whose outputs are sums of `terms` products each.
NodeCost cost_of_products(double terms, ImageShape input, ImageShape output) {
  const double flops = 2 * elements(output) * terms;
  const double values = elements(input) + elements(output);
  return {.forward_flops = flops,
          .backward_data_flops = flops,
          .backward_weight_flops = flops,
          .output_elements = elements(output),
          .forward_values = values,
          .backward_values = values};
}

NodeCost elementwise_cost(ImageShape input, ImageShape output) {
  const double values = elements(input) + elements(output);
  return {.forward_flops = elements(input),
          .backward_data_flops = elements(input),
          .output_elements = elements(output),
          .forward_values = values,
          .backward_values = values};
}

std::string text(ImageShape shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace

ImageShape Convolution::output(Shapes inputs) const {
  return output_of(*this, out_channels, inputs[0]);
}

std::vector<ParameterSpec> Convolution::parameters(Shapes inputs) const {
  const std::int64_t fan_in = inputs[0].channels * kernel * kernel;
  std::vector<ParameterSpec> all{{".weight",
                                  {out_channels, inputs[0].channels, kernel, kernel},
                                  Initial::kaiming_uniform,
                                  fan_in}};
  if (has_bias) all.push_back({".bias", {out_channels}, Initial::bias_uniform, fan_in});
  return all;
}

NodeCost Convolution::cost(Shapes inputs, ImageShape output) const {
  return cost_of_products(static_cast<double>(inputs[0].channels * kernel * kernel), inputs[0],
                          output);
}

std::string Convolution::description(Shapes inputs, ImageShape output) const {
  return fmt::format("convolution {}x{}{}, {} -> {}", kernel, kernel,
                     stride == 1 ? "" : fmt::format(" stride {}", stride), text(inputs[0]),
                     text(output));
}

std::vector<ParameterSpec> BatchNorm::parameters(Shapes inputs) const {
  return {{".weight", {inputs[0].channels}, Initial::ones},
          {".bias", {inputs[0].channels}, Initial::zeros}};
}

std::vector<StatisticSpec> BatchNorm::statistics(Shapes inputs) const {
  return {{".running_mean", Initial::zeros, inputs[0].channels},
          {".running_var", Initial::ones, inputs[0].channels}};
}

NodeCost BatchNorm::cost(Shapes inputs, ImageShape output) const {
  NodeCost cost = elementwise_cost(inputs[0], output);
  // Two passes over the input, both forward and backward, because the statistics are needed first.
  cost.forward_values = 3 * elements(output);
  cost.backward_values = 5 * elements(output);
  return cost;
}

std::string BatchNorm::description(Shapes, ImageShape output) const {
  return "batch norm, add, ReLU, " + text(output);
}

NodeCost Relu::cost(Shapes inputs, ImageShape output) const {
  NodeCost cost = elementwise_cost(inputs[0], output);
  cost.backward_values = 3 * elements(output);  // reads the sign of the output too
  return cost;
}

ImageShape Add::output(Shapes inputs) const {
  check(inputs[0] == inputs[1], "the summands of an addition have the same shape");
  return inputs[0];
}

NodeCost Add::cost(Shapes inputs, ImageShape output) const {
  NodeCost cost = elementwise_cost(inputs[0], output);
  cost.forward_values = cost.backward_values = 3 * elements(output);
  return cost;
}

ImageShape MaxPool::output(Shapes inputs) const {
  check(2 * padding <= kernel, "padding of a max-pool is at most half its kernel");
  return output_of(*this, inputs[0].channels, inputs[0]);
}

ImageShape Linear::output(Shapes inputs) const {
  check(inputs[0].pixels() == 1, "a linear layer takes C x 1 x 1");
  return {out_features, 1, 1};
}

std::vector<ParameterSpec> Linear::parameters(Shapes inputs) const {
  const std::int64_t in = inputs[0].channels;
  return {{".weight", {out_features, in}, Initial::kaiming_uniform, in},
          {".bias", {out_features}, Initial::bias_uniform, in}};
}

NodeCost Linear::cost(Shapes inputs, ImageShape output) const {
  return cost_of_products(static_cast<double>(inputs[0].channels), inputs[0], output);
}

ImageShape Dropout::output(Shapes inputs) const {
  check(probability >= 0 && probability < 1, "the probability of dropout is from 0 to below 1");
  return inputs[0];
}

ImageShape SoftmaxCrossEntropy::output(Shapes inputs) const {
  check(inputs[0].pixels() == 1, "the loss takes C x 1 x 1");
  return {1, 1, 1};
}

bool is_input(const Operation& operation) { return std::holds_alternative<Input>(operation); }

std::size_t input_count(const Operation& operation) {
  return std::visit(
      []<class Kind>(const Kind&) -> std::size_t {
        if constexpr (requires { Kind::input_count; }) return Kind::input_count;
        return 1;
      },
      operation);
}

OutputForm output_form(const Operation& operation) {
  return std::visit(
      [](const auto& kind) {
        if constexpr (requires { kind.form; }) return kind.form;
        return OutputForm::feature_map;
      },
      operation);
}

ImageShape output_shape(const Operation& operation, Shapes inputs) {
  check(inputs.size() == input_count(operation), "an operation has all its inputs");
  return std::visit([&](const auto& kind) { return kind.output(inputs); }, operation);
}

std::vector<ParameterSpec> parameters_of(const Operation& operation, Shapes inputs) {
  return std::visit(
      [&](const auto& kind) -> std::vector<ParameterSpec> {
        if constexpr (requires { kind.parameters(inputs); }) return kind.parameters(inputs);
        return {};
      },
      operation);
}

std::vector<StatisticSpec> statistics_of(const Operation& operation, Shapes inputs) {
  return std::visit(
      [&](const auto& kind) -> std::vector<StatisticSpec> {
        if constexpr (requires { kind.statistics(inputs); }) return kind.statistics(inputs);
        return {};
      },
      operation);
}

NodeCost cost_of(const Operation& operation, Shapes inputs, ImageShape output) {
  if (inputs.empty()) return {.output_elements = elements(output)};
  return std::visit(
      [&](const auto& kind) {
        if constexpr (requires { kind.cost(inputs, output); }) return kind.cost(inputs, output);
        return elementwise_cost(inputs[0], output);
      },
      operation);
}

std::string description_of(const Operation& operation, std::string_view name, Shapes inputs,
                           ImageShape output) {
  return std::visit(
      [&](const auto& kind) {
        if constexpr (requires { kind.description(inputs, output); })
          return kind.description(inputs, output);
        return fmt::format("{}, {}", name, text(inputs.empty() ? output : inputs[0]));
      },
      operation);
}

}  // namespace lockstep::graph
