// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <vector>

#include "../blueprint.hpp"
#include "fused_statistics.hpp"
#include "operations/operations.hpp"

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
  std::vector<FusedStatistics> statistics_;
  PreferredLayouts layouts_;
};

/// Returns the memory that a plan would allocate.
MemoryUse memory_of(const Blueprint& blueprint, const CpuOperations& operations);

/// Returns an executable plan.
std::unique_ptr<Plan> make_plan(const graph::Graph& graph, ModelState& state,
                                const PlanOptions& options, int threads,
                                ConvolutionChooser& chooser);

}  // namespace lockstep::backend::cpu
