// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// The normalised images, which need no gradient.
struct Input {
  core::ImageShape shape;

  constexpr Traits traits() const { return {.inputs = 0}; }
  core::ImageShape output(Shapes) const { return shape; }
  std::string description(Shapes, core::ImageShape output) const {
    return "input, " + text(output);
  }
};

/// A value that another part of the network computes (see Graph::cut); it needs a gradient.
struct BoundaryInput {
  core::ImageShape shape;
  OutputForm form = OutputForm::feature_map;  ///< never `same_as_input`

  constexpr Traits traits() const { return {.inputs = 0, .form = form}; }
  core::ImageShape output(Shapes) const { return shape; }
  std::string description(Shapes, core::ImageShape output) const {
    return "boundary input, " + text(output);
  }
};

}  // namespace lockstep::graph
