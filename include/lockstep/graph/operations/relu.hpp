// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// max(x, 0).
struct Relu {
  /// The backward pass reads the sign of the output too.
  constexpr Traits traits() const {
    return {.form = OutputForm::same_as_input, .forward_maps = 2, .backward_maps = 3};
  }
  core::ImageShape output(Shapes inputs) const { return inputs[0]; }
  std::string description(Shapes, core::ImageShape output) const { return "ReLU, " + text(output); }
};

}  // namespace lockstep::graph
