// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// Fully connected layer y = W x + b on C x 1 x 1 inputs.
struct Linear {
  std::int64_t out_features = 0;

  constexpr Traits traits() const { return {.form = OutputForm::vector, .reads_vectors = true}; }
  core::ImageShape output(Shapes inputs) const {
    core::check(inputs[0].pixels() == 1, "a linear layer takes C x 1 x 1");
    return {out_features, 1, 1};
  }
  std::vector<ParameterSpec> parameters(Shapes inputs) const {
    const std::int64_t in = inputs[0].channels;
    return {{".weight", {out_features, in}, Initial::kaiming_uniform, in},
            {".bias", {out_features}, Initial::bias_uniform, in}};
  }
  NodeCost cost(Shapes inputs, core::ImageShape output) const {
    return product_cost(inputs[0].channels, inputs, output);
  }
  std::string description(Shapes inputs, core::ImageShape output) const {
    return "linear, " + text(inputs[0]) + " -> " + text(output);
  }
};

}  // namespace lockstep::graph
