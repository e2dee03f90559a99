// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// Group normalisation (Wu and He, 2018) with PyTorch's conventions: normalises each image over the
/// pixels of each of `groups` groups of consecutive channels with their biased variance, in
/// training and in inference; weight and bias are per channel.
struct GroupNorm {
  std::int64_t groups = 32;
  float epsilon = 1e-5f;

  /// As batch norm: two passes over the input in each direction.
  constexpr Traits traits() const {
    return {.takes_add_and_relu = true, .forward_maps = 3, .backward_maps = 5};
  }
  core::ImageShape output(Shapes inputs) const {
    core::check(groups > 0 && inputs[0].channels % groups == 0,
                "the number of channels of a group norm is a multiple of its groups");
    return inputs[0];
  }
  std::vector<ParameterSpec> parameters(Shapes inputs) const { return channel_parameters(inputs); }
  std::int64_t values_per_variance(Shapes inputs, std::int64_t) const {
    return inputs[0].elements() / groups;
  }
  std::string description(Shapes, core::ImageShape output) const {
    return "group norm of " + std::to_string(groups) + " groups, " + text(output);
  }
};

}  // namespace lockstep::graph
