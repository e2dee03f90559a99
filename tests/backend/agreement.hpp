// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "backend/support.hpp"

namespace lockstep::backend::test {

/// Largest differences between a device and the reference, as relative Euclidean norms.
struct Tolerance {
  double scores = 0;     ///< logits, loss per image, running statistics
  double gradients = 0;  ///< gradient of each parameter
};

/// Expects that the logits and the loss of the last forward pass and the running statistics of
/// `device` agree with those of `reference` within `tolerance` (relative Euclidean norms). The
/// number of correct predictions may differ by the number of images whose two largest logits in the
/// reference differ by at most 4 `tolerance` times the largest absolute logit. The message of a
/// failure of this and the next function contains the implementations that the device uses.
void expect_same_forward(const graph::Graph& graph, Replica& reference, Replica& device,
                         double tolerance);

/// Expects that the gradient of each parameter on `device` agrees with that of `reference` within
/// `tolerance` (relative Euclidean norm). The error of the bias of a convolution is relative to the
/// gradient of its weights, because the gradient of a bias before a batch norm is 0. Convolution
/// parameters with a single element are not compared.
void expect_same_gradients(const graph::Graph& graph, Replica& reference, Replica& device,
                           double tolerance);

}  // namespace lockstep::backend::test
