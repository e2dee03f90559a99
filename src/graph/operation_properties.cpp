// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/operation_properties.hpp"

#include <fmt/format.h>

namespace lockstep::graph {

using core::ImageShape;

namespace {

double elements(ImageShape shape) { return static_cast<double>(shape.elements()); }

std::int64_t windows(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding) {
  if (size + 2 * padding < kernel) return 0;
  return (size + 2 * padding - kernel) / stride + 1;
}

}  // namespace

NodeCost elementwise_cost(Traits traits, Shapes inputs, ImageShape output) {
  const double values = elements(inputs[0]) + elements(output);
  const auto accesses = [&](int maps) { return maps > 0 ? maps * elements(output) : values; };
  return {.forward_flops = elements(inputs[0]),
          .backward_data_flops = elements(inputs[0]),
          .output_elements = elements(output),
          .forward_values = accesses(traits.forward_maps),
          .backward_values = accesses(traits.backward_maps)};
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
