// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "../blueprint.hpp"
#include "../host_plan.hpp"
#include "fused_statistics.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

/// Creates the CPU operations of one graph.
class CpuOperations : public OperationFactory {
 public:
  CpuOperations(const graph::Graph& graph, const PlanOptions& options, int threads,
                ConvolutionChooser& chooser);
  CpuOperations(const CpuOperations&) = delete;
  CpuOperations& operator=(const CpuOperations&) = delete;

  const graph::Graph& graph() const override { return graph_; }
  const PlanOptions& options() const override { return context_.options; }
  void prepare_fusion(const std::vector<Step>& steps) override;
  FeatureMap image_map(core::ImageShape shape) const override;
  FeatureMap feature_map(core::ImageShape shape) const override;
  std::unique_ptr<Operation> make(const Step& step, Operands operands) override;
  void add_into(const FeatureMap& from, const FeatureMap& to) override;

  int threads() const { return context_.threads; }
  BatchData& batch() { return batch_; }
  const BatchData& batch() const { return batch_; }

 private:
  graph::Graph graph_;
  BatchData batch_;
  Context context_;
  std::optional<StatisticsFusion> statistics_;
  PreferredLayouts layouts_;
};

/// Returns the memory that a plan would allocate.
MemoryUse memory_of(const Blueprint& blueprint, const CpuOperations& operations);

/// An executable plan: a blueprint and its memory. The pages of the feature maps are allocated in
/// the first step, each on the NUMA node of the thread that computes this part of the map.
class CpuPlan : public HostPlan {
 public:
  CpuPlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options, int threads,
          ConvolutionChooser& chooser);

  void upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) override;
  void forward() override;
  BatchResult result() const override { return operations_.batch().result; }
  std::span<const float> logits() const override;
  void backward(core::GradientListener& listener) override;
  void set_boundary_input(std::span<const float> values) override;
  void boundary_output(std::span<float> values) const override;
  void set_output_gradient(std::span<const float> values) override;
  void input_gradient(std::span<float> values) const override;
  MemoryUse memory() const override { return memory_of(blueprint_, operations_); }
  std::vector<OperationChoice> choices() const override { return blueprint_.choices(); }

 private:
  CpuOperations operations_;
  Blueprint blueprint_;
  core::Buffer arena_;
  core::Buffer workspace_;
  std::optional<ImageNormaliser> normaliser_;  ///< none if the graph does not begin with the images
};

}  // namespace lockstep::backend::cpu
