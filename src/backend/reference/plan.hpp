#pragma once

#include <span>
#include <vector>

#include "../host_plan.hpp"
#include "operations.hpp"
#include "tensor.hpp"

namespace lockstep::backend::reference {

std::vector<OperationChoice> choices_of(const graph::Graph& graph, Mode mode);

/// Computes a graph node by node in float64 and keeps every feature map and gradient. The
/// ModelState stays float32: parameters are read at each forward pass, and gradients are rounded
/// once at the end.
class ReferencePlan : public HostPlan {
 public:
  /// Throws `Error` (usage) if a batch norm would compute the variance of a single value in
  /// training.
  ReferencePlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options);

  void upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) override;
  void forward() override;
  BatchResult result() const override { return result_; }
  std::span<const float> logits() const override;
  void backward(core::GradientListener& listener) override;
  MemoryUse memory() const override { return memory_; }
  std::vector<OperationChoice> choices() const override {
    return choices_of(graph_, options_.mode);
  }

 private:
  /// Memory of one node. Members that the operation does not use are empty.
  struct NodeMemory {
    Tensor output;
    Tensor gradient;
    BatchNormMoments moments;
    std::vector<std::int32_t> winners;
    Tensor probabilities;
  };

  NodeMemory& memory_of(graph::NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Tensor& input_of(const graph::Node& node) { return memory_of(node.inputs[0]).output; }
  Tensor* input_gradient(graph::NodeId input);
  /// Returns parameter `index` of the node (0 weight, 1 bias); empty if the node has no such
  /// parameter.
  std::span<double> parameter(const graph::Node& node, std::size_t index);
  std::span<double> parameter_gradient(const graph::Node& node, std::size_t index);
  RunningStatistics running(const graph::Node& node);

  void forward_node(const graph::Node& node, NodeMemory& memory);
  void backward_node(const graph::Node& node, NodeMemory& memory);
  void store_gradients(const graph::Node& node);

  graph::Graph graph_;  // a copy, because the plan may outlive the original
  PlanOptions options_;
  MemoryUse memory_;
  std::vector<NodeMemory> nodes_;
  std::vector<double> parameters_;  // in the layout of the graph, as in the state
  std::vector<double> gradients_;   // in the same layout
  // Per node: leading gradients that are final after its backward.
  std::vector<std::size_t> filled_to_;
  std::vector<std::int32_t> labels_;
  std::vector<float> logits_;
  BatchResult result_;
};

/// Returns the memory that a ReferencePlan would allocate, from shapes alone.
MemoryUse memory_use(const graph::Graph& graph, const PlanOptions& options);

}  // namespace lockstep::backend::reference
