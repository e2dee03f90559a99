// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "../blueprint.hpp"
#include "kernels/update.hpp"
#include "lockstep/optim/update.hpp"
#include "operations.hpp"
#include "side_stream.hpp"
#include "state.hpp"
#include "step_upload.hpp"
#include "timeline.hpp"

namespace lockstep::backend::cuda {

class DnnGraph;

/// The local learning rates of LARS in device memory.
class LocalRates {
 public:
  /// Successive parameters, and the flat elements [first, end) from the first to the last of them.
  struct Parameters {
    std::size_t index = 0;
    std::size_t count = 0;
    std::size_t first = 0;
    std::size_t end = 0;
  };

  LocalRates() = default;
  /// `segments`: those of the parameters of the graph.
  LocalRates(const graph::Graph& graph, const Segments& segments);

  /// Returns the parameters whose last elements are among `count` elements from index `first` on.
  Parameters complete(std::size_t first, std::size_t count) const;

  /// Computes the rates of `parameters`, whose segments are the table of `update`, in stream order.
  void compute(cudaStream_t stream, const Segments& segments, Parameters parameters,
               const kernels::UpdateArguments& update) const;

  const float* rates() const { return rates_.as<float>().data(); }

 private:
  std::vector<optim::ParameterRange> ranges_;
  core::Buffer table_;    ///< `kernels::ParameterSegments` by parameter
  core::Buffer squares_;  ///< `kernels::SegmentSquares` by segment
  core::Buffer rates_;    ///< by parameter
};

/// Returns the data type of feature maps. GPUs from Ampere on support all precisions; Turing
/// supports all except bf16 and tf32, for which this function throws `Error` (usage).
core::DataType element_type(core::Precision precision, const DeviceInfo& device);

/// Creates the GPU operations of one graph.
class CudaOperations final : public OperationFactory {
 public:
  CudaOperations(const graph::Graph& graph, const PlanOptions& options, DnnPlanner& planner);
  CudaOperations(const CudaOperations&) = delete;
  CudaOperations& operator=(const CudaOperations&) = delete;

  const graph::Graph& graph() const override { return graph_; }
  const PlanOptions& options() const override { return context_.options; }
  void prepare_fusion(const std::vector<Step>& steps) override {
    context_.fusion_plan = BatchNormFusionPlan(context_, steps);
  }
  FeatureMap image_map(core::ImageShape shape) const override;
  FeatureMap feature_map(core::ImageShape shape) const override;
  std::unique_ptr<Operation> make(const Step& step, Operands operands) override;
  void add_into(const FeatureMap& from, const FeatureMap& to) override;

  Context& context() { return context_; }
  const Context& context() const { return context_; }

 private:
  graph::Graph graph_;
  Context context_;
};

/// Returns the bytes that a boundary value of a stage needs in plain float32; 0 if the graph is a
/// whole network.
std::size_t boundary_bytes(const Blueprint& blueprint, const graph::Graph& graph);

/// Returns the workspace of a plan: that of the operations, which boundary values also use.
inline std::size_t workspace_bytes(const Blueprint& blueprint, const CudaOperations& operations) {
  return std::max(blueprint.workspace_bytes(), boundary_bytes(blueprint, operations.graph()));
}

/// Returns the memory that a plan would need.
MemoryUse memory_of(const Blueprint& blueprint, const CudaOperations& operations);

/// A blueprint with memory on the GPU. The functions of a training step enqueue their work and
/// return; `upload` and `upload_samples` wait only for the copy of an earlier batch. The inputs of
/// successive steps are in two places in turn; the work of `forward`, `backward` and `update` reads
/// them in the place of the last upload. `result`, `logits`, `loss_scale` and the functions for
/// boundary values wait for the stream.
class CudaPlan final : public Plan, public DeviceDataset, public LossScaling, public StagePasses {
 public:
  CudaPlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options,
           DnnPlanner& planner);

  void upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) override;
  void load_dataset(std::span<const std::int32_t> labels, const ImageReader& read) override;
  void upload_samples(std::span<const std::int32_t> samples,
                      std::span<const core::CropFlip> crops) override;
  void forward() override;
  BatchResult result() const override;
  std::span<const float> logits() const override;
  void backward(core::GradientListener& listener) override;
  void set_coefficients(const optim::Coefficients& coefficients) override {
    coefficients_ = coefficients;
  }
  void update(std::size_t first, std::size_t count) override;
  void parameters_changed() override { weights_->refresh(stream_); }
  core::Timeline& timeline() override { return timeline_; }
  std::unique_ptr<StepExecutor> make_step_executor(std::unique_ptr<StepWork> work) override;
  std::unique_ptr<StepExecutor> make_eager_executor(std::unique_ptr<StepWork> work) override;
  void synchronise() const override;
  void set_boundary_input(std::span<const float> values) override;
  void boundary_output(std::span<float> values) const override;
  void set_output_gradient(std::span<const float> values) override;
  void input_gradient(std::span<float> values) const override;
  LossScale loss_scale() const override;
  void set_loss_scale(const LossScale& scale) override;
  MemoryUse memory() const override { return memory_of(blueprint_, operations_); }
  std::vector<OperationChoice> choices() const override { return blueprint_.choices(); }
  DeviceDataset* device_dataset() override { return this; }
  LossScaling* loss_scaling() override { return has_saved_loss_scale() ? this : nullptr; }
  StagePasses* stage_passes() override { return this; }

  /// Uploads random images as training will upload its images, for steps that are
  /// run only for capture and timing.
  void upload_anything();
  /// Resets the loss scale to its initial value, after steps that were run only for capture and
  /// timing.
  void restart_loss_scale();
  /// Return the place of the last upload and that of the next one, in [0, StepUpload::places).
  std::size_t place() const { return upload_.place(); }
  std::size_t next_place() const { return upload_.next_place(); }
  const kernels::DeviceResult* device_result() const {
    return operations_.context().parameters.result;
  }
  std::int64_t batch() const { return operations_.options().batch; }

 private:
  /// Values in device memory besides the feature maps.
  struct Scalars {
    kernels::DeviceResult result;
    kernels::LossScale loss_scale;
    kernels::GradientClipping clipping;
  };

  void place_parameters();
  void place_gradients();
  bool begins_with_images() const { return operations_.graph().boundary_inputs().empty(); }
  bool ends_with_loss() const { return operations_.graph().boundary_outputs().empty(); }
  void check_labels(std::span<const std::int32_t> labels) const;
  /// Copies values of the plan to the host, and waits for the stream. `what`: as in `check_cuda`.
  void fetch(void* to, const void* from, std::size_t bytes, std::string_view what) const;
  /// Copy values at a boundary of the stage through the workspace, and wait for the stream.
  void write_values(std::span<const float> values, const FeatureMap& map);
  void read_values(const FeatureMap& map, std::span<float> values) const;
  StepInputs step_inputs();
  void update_range(std::size_t first, std::size_t count);
  kernels::UpdateArguments update_arguments(std::size_t begin, std::size_t end) const;
  void compute_clipping_factor();
  Scalars* scalars() const { return reinterpret_cast<Scalars*>(scalars_.data()); }
  bool has_loss_scale() const { return operations_.options().precision == core::Precision::fp16; }
  bool has_saved_loss_scale() const;
  bool reduces_gradients() const {
    return operations_.options().gradient_reduction == GradientReduction::over_replicas;
  }
  bool has_clipping() const { return operations_.options().max_gradient_norm > 0; }

  CudaOperations operations_;
  Blueprint blueprint_;
  ModelState& host_;
  CudaState& state_;
  cudaStream_t stream_;
  std::unique_ptr<const SideStream> side_stream_;  ///< null: not used
  CudaTimeline timeline_;
  core::Buffer arena_, workspace_, scalars_, vectors_;
  std::shared_ptr<const NativeCopies> weights_;
  std::shared_ptr<const NativeCopies> gradients_;  ///< null in inference
  Segments segments_;  ///< of the parameters, with the gradients that the update reads
  StepUpload upload_;
  LocalRates local_rates_;            ///< for LARS
  optim::Coefficients coefficients_;  ///< of the steps that are uploaded next
  mutable std::vector<float> logits_;
};

}  // namespace lockstep::backend::cuda
