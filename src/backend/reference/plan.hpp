// SPDX-License-Identifier: BSD-3-Clause
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
  BatchResult result() const override { return data_.result; }
  std::span<const float> logits() const override;
  void backward(core::GradientListener& listener) override;
  void set_boundary_input(std::span<const float> values) override;
  void boundary_output(std::span<float> values) const override;
  void set_output_gradient(std::span<const float> values) override;
  void input_gradient(std::span<float> values) const override;
  MemoryUse memory() const override { return memory_; }
  std::vector<OperationChoice> choices() const override {
    return choices_of(graph_, data_.options.mode);
  }

 private:
  bool ends_at_boundary() const { return !graph_.boundary_outputs().empty(); }
  NodeData& data_of(graph::NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  NodeData make_data(const graph::Node& node);
  /// Returns parameter `index` of the node (0 weight, 1 bias) in a flat buffer; empty if the node
  /// has no such parameter.
  std::span<double> parameter(const graph::Node& node, std::size_t index,
                              std::vector<double>& flat) const;
  RunningStatistics running(const graph::Node& node);
  void store_gradients(const graph::Node& node);

  graph::Graph graph_;  // a copy, because the plan may outlive the original
  MemoryUse memory_;
  std::vector<double> parameters_;  // in the layout of the graph, as in the state
  std::vector<double> gradients_;   // in the same layout; empty in inference
  std::vector<NodeData> nodes_;     // by node; refer to one another and to the buffers above
  PlanData data_;
  std::vector<float> logits_;
};

/// Returns the memory that a ReferencePlan would allocate, from shapes alone.
MemoryUse memory_use(const graph::Graph& graph, const PlanOptions& options);

}  // namespace lockstep::backend::reference
