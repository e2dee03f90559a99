// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// Sum of two inputs of the same shape.
struct Add {
  constexpr Traits traits() const {
    return {.inputs = 2, .form = OutputForm::same_as_input, .forward_maps = 3, .backward_maps = 3};
  }
  core::ImageShape output(Shapes inputs) const {
    core::check(inputs[0] == inputs[1], "the summands of an addition have the same shape");
    return inputs[0];
  }
  std::string description(Shapes, core::ImageShape output) const { return "add, " + text(output); }
};

}  // namespace lockstep::graph
