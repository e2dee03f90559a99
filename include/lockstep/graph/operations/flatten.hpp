// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// C x H x W -> (C H W) x 1 x 1, in the order (channel, row, column), as `torch.flatten(x, 1)`.
struct Flatten {
  constexpr Traits traits() const { return {.form = OutputForm::vector}; }
  core::ImageShape output(Shapes inputs) const { return {inputs[0].elements(), 1, 1}; }
  std::string description(Shapes inputs, core::ImageShape) const {
    return "flatten, " + text(inputs[0]);
  }
};

}  // namespace lockstep::graph
