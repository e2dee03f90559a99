// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// Max-pooling with square windows.
struct MaxPool {
  std::int64_t kernel = 0;
  std::int64_t stride = 0;
  std::int64_t padding = 0;

  constexpr Traits traits() const { return {}; }
  core::ImageShape output(Shapes inputs) const {
    core::check(2 * padding <= kernel, "padding of a max-pool is at most half its kernel");
    return window_output(inputs[0].channels, inputs[0], kernel, stride, padding);
  }
  std::string description(Shapes inputs, core::ImageShape output) const {
    return "max pool " + window_text(kernel, stride) + ", " + text(inputs[0]) + " -> " +
           text(output);
  }
};

}  // namespace lockstep::graph
