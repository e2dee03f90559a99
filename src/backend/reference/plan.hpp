#pragma once

#include <span>
#include <vector>

#include "../host_plan.hpp"
#include "operations.hpp"
#include "tensor.hpp"

namespace lockstep::backend::reference {

std::vector<OperationChoice> choices_of(const graph::Graph& graph, Mode mode);

/// A graph computed node by node in float64, every feature map and gradient kept. The ModelState
/// stays float32: parameters are read at each forward pass, gradients rounded once at the end.
class ReferencePlan : public HostPlan {
 public:
  /// Throws `Error` (usage) where a batch norm would see one value per channel.
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
  /// One node's memory. What an operation does not use is empty.
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
  /// Parameter `index` of the node (0 weight, 1 bias); empty where it has none.
  std::span<double> parameter(const graph::Node& node, std::size_t index);
  std::span<double> parameter_gradient(const graph::Node& node, std::size_t index);
  RunningStatistics running(const graph::Node& node);

  void forward_node(const graph::Node& node, NodeMemory& memory);
  void backward_node(const graph::Node& node, NodeMemory& memory);
  void store_gradients(const graph::Node& node);

  graph::Graph graph_;  // a copy: the plan outlives what it was compiled from
  PlanOptions options_;
  MemoryUse memory_;
  std::vector<NodeMemory> nodes_;
  std::vector<double> parameters_;      // in the graph's layout, like the state's
  std::vector<double> gradients_;       // the same
  std::vector<std::size_t> filled_to_;  // per node: gradients final once it has run backward
  std::vector<std::int32_t> labels_;
  std::vector<float> logits_;
  BatchResult result_;
};

/// What a ReferencePlan takes, from shapes alone.
MemoryUse memory_use(const graph::Graph& graph, const PlanOptions& options);

}  // namespace lockstep::backend::reference
