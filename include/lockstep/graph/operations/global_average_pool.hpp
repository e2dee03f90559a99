// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// Mean over the pixels: C x H x W -> C x 1 x 1.
struct GlobalAveragePool {
  constexpr Traits traits() const { return {.form = OutputForm::vector}; }
  core::ImageShape output(Shapes inputs) const { return {inputs[0].channels, 1, 1}; }
  std::string description(Shapes inputs, core::ImageShape) const {
    return "global average pool, " + text(inputs[0]);
  }
};

}  // namespace lockstep::graph
