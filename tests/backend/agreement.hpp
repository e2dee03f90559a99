#pragma once

#include "backend/support.hpp"

namespace lockstep::backend::test {

/// How far a device may be from the reference, as relative Euclidean norms.
struct Tolerance {
  double scores = 0;     ///< logits, loss per image, running statistics
  double gradients = 0;  ///< each parameter's gradient
};

/// Loss, hits, scores of the last forward pass and running statistics of `device` are those of
/// `reference`. A hit may differ only where the reference's two best scores are closer than the
/// tolerance.
void expect_same_forward(const graph::Graph& graph, Replica& reference, Replica& device,
                         double tolerance);

/// Each parameter's gradient of `device` is the reference's. A convolution's bias is measured by
/// the gradient of its weight as well: before a batch norm its own gradient is 0.
void expect_same_gradients(const graph::Graph& graph, Replica& reference, Replica& device,
                           double tolerance);

}  // namespace lockstep::backend::test
