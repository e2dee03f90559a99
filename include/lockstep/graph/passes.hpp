// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/graph/graph.hpp"

// Transformations of a sealed network into an equal one.
namespace lockstep::graph {

/// A network in which ReLUs were moved.
struct MovedRelus {
  Graph graph;
  int count = 0;  ///< of the ReLUs that were moved
};

/// Returns the network with each ReLU whose only reader is a max-pool moved behind this max-pool:
/// ReLU(x) -> max-pool becomes max-pool(x) -> ReLU, which then processes fewer values. Losses and
/// gradients are equal, not only up to rounding, if all activations are finite, because
/// max(ReLU(x)) = ReLU(max(x)), and because in a window without a positive value both orders give
/// the gradient 0 for every element, for whichever of them the pooling selects. Names and order of
/// parameters and statistics do not change.
MovedRelus move_relu_behind_max_pool(const Graph& graph);

}  // namespace lockstep::graph
