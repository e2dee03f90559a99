// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// Batch normalisation per channel (Ioffe and Szegedy, 2015) with PyTorch's conventions: the biased
/// variance normalises the batch, the unbiased variance updates the running variance.
struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.1f;

  /// Two passes over the input, both forward and backward, because the statistics are needed first.
  constexpr Traits traits() const {
    return {.takes_add_and_relu = true, .forward_maps = 3, .backward_maps = 5};
  }
  core::ImageShape output(Shapes inputs) const { return inputs[0]; }
  std::vector<ParameterSpec> parameters(Shapes inputs) const { return channel_parameters(inputs); }
  std::vector<StatisticSpec> statistics(Shapes inputs) const {
    return {{".running_mean", Initial::zeros, inputs[0].channels},
            {".running_var", Initial::ones, inputs[0].channels}};
  }
  std::int64_t values_per_variance(Shapes inputs, std::int64_t images) const {
    return images * inputs[0].pixels();
  }
  std::string description(Shapes, core::ImageShape output) const {
    return "batch norm, " + text(output);
  }
};

}  // namespace lockstep::graph
