// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// Sets each value to 0 with probability `probability` in training, and multiplies the others by
/// 1 / (1 - probability); the identity in inference (as PyTorch).
struct Dropout {
  float probability = 0.5f;  ///< from 0 to below 1
  std::uint32_t layer = 0;   ///< layers with the same number have the same mask

  constexpr Traits traits() const { return {.form = OutputForm::same_as_input}; }
  core::ImageShape output(Shapes inputs) const {
    core::check(probability >= 0 && probability < 1,
                "the probability of dropout is from 0 to below 1");
    return inputs[0];
  }
  std::string description(Shapes, core::ImageShape output) const {
    return "dropout, " + text(output);
  }
};

}  // namespace lockstep::graph
