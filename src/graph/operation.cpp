// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/operation.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operations.hpp"

namespace lockstep::graph {

using core::ImageShape;

namespace {

double elements(ImageShape shape) { return static_cast<double>(shape.elements()); }

std::int64_t windows(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding) {
  if (size + 2 * padding < kernel) return 0;
  return (size + 2 * padding - kernel) / stride + 1;
}

/// Returns the cost of a memory-bound operation.
NodeCost elementwise_cost(Traits traits, Shapes inputs, ImageShape output) {
  const double values = elements(inputs[0]) + elements(output);
  const auto accesses = [&](int maps) { return maps > 0 ? maps * elements(output) : values; };
  return {.forward_flops = elements(inputs[0]),
          .backward_data_flops = elements(inputs[0]),
          .output_elements = elements(output),
          .forward_values = accesses(traits.forward_maps),
          .backward_values = accesses(traits.backward_maps)};
}

}  // namespace

Traits Operation::traits() const {
  return visit([](const auto& operation) { return operation.traits(); });
}

ImageShape Operation::output(Shapes inputs) const {
  core::check(inputs.size() == traits().inputs, "an operation has all its inputs");
  return visit([&](const auto& operation) { return operation.output(inputs); });
}

std::vector<ParameterSpec> Operation::parameters(Shapes inputs) const {
  return visit([&](const auto& operation) -> std::vector<ParameterSpec> {
    if constexpr (requires { operation.parameters(inputs); }) return operation.parameters(inputs);
    return {};
  });
}

std::vector<StatisticSpec> Operation::statistics(Shapes inputs) const {
  return visit([&](const auto& operation) -> std::vector<StatisticSpec> {
    if constexpr (requires { operation.statistics(inputs); }) return operation.statistics(inputs);
    return {};
  });
}

NodeCost Operation::cost(Shapes inputs, ImageShape output) const {
  if (inputs.empty()) return {.output_elements = elements(output)};
  return visit([&](const auto& operation) {
    if constexpr (requires { operation.cost(inputs, output); })
      return operation.cost(inputs, output);
    return elementwise_cost(operation.traits(), inputs, output);
  });
}

std::string Operation::description(Shapes inputs, ImageShape output) const {
  return visit([&](const auto& operation) { return operation.description(inputs, output); });
}

std::optional<std::int64_t> Operation::values_per_variance(Shapes inputs,
                                                           std::int64_t images) const {
  return visit([&](const auto& operation) -> std::optional<std::int64_t> {
    if constexpr (requires { operation.values_per_variance(inputs, images); })
      return operation.values_per_variance(inputs, images);
    return std::nullopt;
  });
}

NodeCost product_cost(std::int64_t terms, Shapes inputs, ImageShape output) {
  const double flops = 2 * elements(output) * static_cast<double>(terms);
  const double values = elements(inputs[0]) + elements(output);
  return {.forward_flops = flops,
          .backward_data_flops = flops,
          .backward_weight_flops = flops,
          .output_elements = elements(output),
          .forward_values = values,
          .backward_values = values};
}

std::vector<ParameterSpec> channel_parameters(Shapes inputs) {
  return {{".weight", {inputs[0].channels}, Initial::ones},
          {".bias", {inputs[0].channels}, Initial::zeros}};
}

ImageShape window_output(std::int64_t channels, ImageShape input, std::int64_t kernel,
                         std::int64_t stride, std::int64_t padding) {
  return {channels, windows(input.height, kernel, stride, padding),
          windows(input.width, kernel, stride, padding)};
}

std::string window_text(std::int64_t kernel, std::int64_t stride) {
  return fmt::format("{}x{}{}", kernel, kernel,
                     stride == 1 ? "" : fmt::format(" stride {}", stride));
}

std::string text(ImageShape shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace lockstep::graph
