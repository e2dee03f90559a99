// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/passes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"

namespace lockstep::graph {

namespace {

/// Returns the node that the max-pool `id` can be swapped with: a ReLU that no other node reads;
/// -1 if there is none.
NodeId relu_before(const Graph& graph, NodeId id, const std::vector<int>& readers) {
  const Node& node = graph.node(id);
  if (!node.operation.is<MaxPool>()) return -1;
  const NodeId input = node.inputs[0];
  const bool is_relu = graph.node(input).operation.is<Relu>();
  return is_relu && readers[static_cast<std::size_t>(input)] == 1 ? input : -1;
}

}  // namespace

MovedRelus move_relu_behind_max_pool(const Graph& graph) {
  core::check(graph.is_whole(), "a whole network is transformed");
  const auto count = static_cast<NodeId>(graph.nodes().size());
  std::vector<int> readers(graph.nodes().size(), 0);
  for (const Node& node : graph.nodes()) {
    for (const NodeId input : node.inputs) ++readers[static_cast<std::size_t>(input)];
  }
  std::vector<NodeId> pool_of(graph.nodes().size(), -1);  // by ReLU that is moved
  for (NodeId id = 0; id < count; ++id) {
    const NodeId relu = relu_before(graph, id, readers);
    if (relu >= 0) pool_of[static_cast<std::size_t>(relu)] = id;
  }
  Graph result(graph.model());
  std::vector<NodeId> new_id(graph.nodes().size(), -1);  // of the value that readers see
  const auto append = [&](NodeId id, std::vector<NodeId> inputs) {
    return result.append(graph.node(id).name, graph.node(id).operation, std::move(inputs));
  };
  for (NodeId id = 0; id < count; ++id) {
    const auto at = static_cast<std::size_t>(id);
    std::vector<NodeId> inputs;
    for (const NodeId input : graph.node(id).inputs)
      inputs.push_back(new_id[static_cast<std::size_t>(input)]);
    if (pool_of[at] >= 0) {
      new_id[at] = inputs[0];  // the max-pool reads what the ReLU has read
      continue;
    }
    new_id[at] = append(id, inputs);
    const NodeId relu = relu_before(graph, id, readers);
    if (relu >= 0) new_id[at] = append(relu, {new_id[at]});
  }
  result.seal();
  const auto count_of = std::ranges::count_if(pool_of, [](NodeId id) { return id >= 0; });
  return {std::move(result), static_cast<int>(count_of)};
}

}  // namespace lockstep::graph
