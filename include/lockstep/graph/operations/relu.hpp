// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/graph/operation.hpp"

namespace lockstep::graph {

/// max(x, 0).
struct Relu {
  constexpr Traits traits() const { return {.form = OutputForm::same_as_input}; }
  core::ImageShape output(Shapes inputs) const { return inputs[0]; }
  /// The backward pass reads the sign of the output too.
  NodeCost cost(Shapes inputs, core::ImageShape output) const {
    return elementwise_cost(inputs, output, 2, 3);
  }
  std::string description(Shapes, core::ImageShape output) const { return "ReLU, " + text(output); }
};

}  // namespace lockstep::graph
