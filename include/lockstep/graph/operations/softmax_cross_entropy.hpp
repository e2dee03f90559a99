// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/graph/operation_properties.hpp"

namespace lockstep::graph {

/// Softmax cross-entropy loss: the mean over the batch of -sum_k q_k log softmax(x)_k with
/// q = (1 - s) one_hot(label) + s / classes and s = label_smoothing.
struct SoftmaxCrossEntropy {
  float label_smoothing = 0;

  constexpr Traits traits() const {
    return {.form = OutputForm::vector, .reads_vectors = true, .is_loss = true};
  }
  core::ImageShape output(Shapes inputs) const {
    core::check(inputs[0].pixels() == 1, "the loss takes C x 1 x 1");
    return {1, 1, 1};
  }
  std::string description(Shapes inputs, core::ImageShape) const {
    return "softmax cross-entropy, " + text(inputs[0]);
  }
};

}  // namespace lockstep::graph
