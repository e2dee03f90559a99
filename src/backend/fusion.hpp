#pragma once

#include <vector>

#include "lockstep/graph/graph.hpp"

namespace lockstep::backend {

enum class StepKind {
  input,
  convolution,
  batch_norm,
  relu,
  add,
  max_pool,
  average_pool,
  linear,
  loss
};

/// One operation of the plan: a node of the graph, or several nodes that are computed together.
struct Step {
  StepKind kind;
  graph::NodeId node = -1;  ///< the first node, which has the parameters
  bool with_relu = false;   ///< batch_norm: a ReLU is fused into it
  /// Indices of the steps whose outputs are read. batch_norm: a second input is added before the
  /// ReLU.
  std::vector<int> inputs;
  core::ImageShape output;
};

/// Converts a graph to steps in forward order. The addition and the ReLU that follow a batch norm
/// are fused into it if no other node reads the intermediate results and the other summand is
/// computed before; each other node is one step. Average pooling is inserted before a linear or
/// loss step that would read a feature map.
std::vector<Step> fuse(const graph::Graph& graph);

}  // namespace lockstep::backend
