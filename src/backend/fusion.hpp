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

/// One operation of the plan: a node of the graph, or several that are computed in one.
struct Step {
  StepKind kind;
  graph::NodeId node = -1;  ///< the first node: the one with parameters
  bool with_relu = false;   ///< batch_norm: ends in a ReLU
  std::vector<int> inputs;  ///< steps; batch_norm: a second one is added before the ReLU
  core::ImageShape output;
};

/// Turns a graph into steps in forward order. Batch norm takes in the addition and the ReLU behind
/// it where nobody else looks at what lies between; everything else stays one step per node.
/// Average pooling is inserted before a linear step that would read a feature map.
std::vector<Step> fuse(const graph::Graph& graph);

}  // namespace lockstep::backend
