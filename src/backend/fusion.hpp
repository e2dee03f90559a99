// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/graph/graph.hpp"

namespace lockstep::backend {

/// One operation of the plan: a node of the graph, or several nodes that are computed together.
struct Step {
  graph::Operation operation;
  graph::NodeId node = -1;  ///< the first node, for listeners and `OperationChoice`
  bool with_relu = false;   ///< a ReLU is fused into it (Traits::takes_add_and_relu)
  /// Indices of the steps whose outputs are read. If an addition is fused, the last input is the
  /// other summand; it is added before the ReLU.
  std::vector<int> inputs;
  core::ImageShape output;
  std::vector<std::size_t> parameters{};  ///< indices into Graph::parameters(): weight, bias
};

/// Converts a graph to steps in forward order. The addition and the ReLU that follow an operation
/// with `Traits::takes_add_and_relu` are fused into it if no other node reads the intermediate
/// results and the other summand is computed before; each other node is one step. A `Flatten` step
/// is inserted before a linear or loss step that would read a feature map.
std::vector<Step> fuse(const graph::Graph& graph);

}  // namespace lockstep::backend
