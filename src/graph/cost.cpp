// FLOPs of each node for one image, computed from shapes only. A multiply-add counts as two FLOPs.
// Memory-bound operations (ReLU, add, pooling, batch norm) count one FLOP per input element in the
// forward pass and one in the backward pass.

#include <variant>

#include "lockstep/graph/graph.hpp"

namespace lockstep::graph {

NodeCost Graph::cost(NodeId id) const {
  const Node& self = node(id);
  const auto output = static_cast<double>(self.output.elements());
  NodeCost cost;
  cost.output_elements = output;
  if (self.inputs.empty()) return cost;

  const Node& from = node(self.inputs.front());
  const bool reads_images = std::holds_alternative<Input>(from.operation);
  const auto products = [&](double per_output) {
    cost.forward_flops = 2 * output * per_output;
    cost.backward_weight_flops = cost.forward_flops;
    cost.backward_data_flops = reads_images ? 0 : cost.forward_flops;
  };
  if (const auto* convolution = std::get_if<Convolution>(&self.operation)) {
    products(static_cast<double>(from.output.channels * convolution->kernel * convolution->kernel));
  } else if (std::holds_alternative<Linear>(self.operation)) {
    products(static_cast<double>(from.output.channels));
  } else {
    const auto elements = static_cast<double>(from.output.elements());
    cost.forward_flops = elements;
    cost.backward_data_flops = elements;
  }
  return cost;
}

NodeCost Graph::total_cost() const {
  NodeCost total;
  for (NodeId id = 0; id < static_cast<NodeId>(nodes_.size()); ++id) {
    const NodeCost one = cost(id);
    total.forward_flops += one.forward_flops;
    total.backward_data_flops += one.backward_data_flops;
    total.backward_weight_flops += one.backward_weight_flops;
    total.output_elements += one.output_elements;
  }
  return total;
}

}  // namespace lockstep::graph
