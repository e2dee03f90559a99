// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// 2-D convolution (cross-correlation) with square kernels, without dilation or groups.
struct Convolution {
  std::int64_t kernel = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool has_bias = false;
  std::int64_t out_channels = 0;

  constexpr Traits traits() const { return {}; }
  core::ImageShape output(Shapes inputs) const {
    return window_output(out_channels, inputs[0], kernel, stride, padding);
  }
  std::vector<ParameterSpec> parameters(Shapes inputs) const {
    const std::int64_t fan_in = terms(inputs);
    std::vector<ParameterSpec> all{{".weight",
                                    {out_channels, inputs[0].channels, kernel, kernel},
                                    Initial::kaiming_uniform,
                                    fan_in}};
    if (has_bias) all.push_back({".bias", {out_channels}, Initial::bias_uniform, fan_in});
    return all;
  }
  NodeCost cost(Shapes inputs, core::ImageShape output) const {
    return product_cost(terms(inputs), inputs, output);
  }
  std::string description(Shapes inputs, core::ImageShape output) const {
    return "convolution " + window_text(kernel, stride) + ", " + text(inputs[0]) + " -> " +
           text(output);
  }

 private:
  /// Returns the number of products of which each value of the output is the sum.
  std::int64_t terms(Shapes inputs) const { return inputs[0].channels * kernel * kernel; }
};

}  // namespace lockstep::graph
