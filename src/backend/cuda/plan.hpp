#pragma once

#include <memory>
#include <vector>

#include "../blueprint.hpp"
#include "batch_norm/links.hpp"
#include "images.hpp"
#include "kernels/sgd.hpp"
#include "native_gradients.hpp"
#include "operations.hpp"
#include "state.hpp"

namespace lockstep::backend::cuda {

/// Element type of feature maps. All precisions exist from Ampere on, all but bf16 and tf32 on
/// Turing: throws `Error` (usage) for the others.
core::DataType element_type(core::Precision precision, const DeviceInfo& device);

/// Makes the GPU's operations of one graph.
class CudaOperations final : public OperationFactory {
 public:
  CudaOperations(const graph::Graph& graph, const PlanOptions& options, DnnPlanner& planner);
  CudaOperations(const CudaOperations&) = delete;
  CudaOperations& operator=(const CudaOperations&) = delete;

  const graph::Graph& graph() const override { return graph_; }
  const PlanOptions& options() const override { return context_.options; }
  void look_at(const std::vector<Step>& steps) override {
    links_ = BatchNormLinks(context_, steps);
  }
  bool passes_input_on(const Step& step) const override {
    const BatchNormLink* const link = links_.of(step.node);
    return link != nullptr && link->has_reader();
  }
  FeatureMap map_of(const Step& step, const FeatureMap* first_input) const override;
  std::unique_ptr<Operation> make(const Step& step, Ports ports) override;
  void add_into(const FeatureMap& from, const FeatureMap& to) override;

  const Context& context() const { return context_; }
  DeviceParameters& parameters() { return parameters_; }
  BatchNormLinks& links() { return links_; }
  const BatchNormLinks& links() const { return links_; }
  Loss& loss() const { return *loss_; }

 private:
  graph::Graph graph_;
  DeviceParameters parameters_;
  BatchNormLinks links_;
  Context context_;
  Loss* loss_ = nullptr;  ///< made as the last operation
};

/// What a plan would take.
MemoryUse memory_of(const Blueprint& blueprint, const CudaOperations& operations);

/// A blueprint with memory on the GPU. Its functions queue work and return, but for `result` and
/// `logits`, which wait.
class CudaPlan final : public Plan {
 public:
  CudaPlan(const graph::Graph& graph, ModelState& state, const PlanOptions& options,
           DnnPlanner& planner);

  void upload(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels) override;
  void keep(std::span<const std::uint8_t> images, std::span<const std::uint8_t> labels) override {
    upload_.keep(images, labels);
  }
  void upload_kept(std::span<const std::int32_t> samples,
                   std::span<const core::CropFlip> crops) override;
  void forward() override;
  BatchResult result() const override;
  std::span<const float> logits() const override;
  void backward(core::GradientListener& listener) override;
  void set_sgd(const optim::Sgd& sgd) override;
  void update(std::size_t first, std::size_t count) override;
  std::optional<LossScale> loss_scale() const override;
  void set_loss_scale(const LossScale& scale) override;
  MemoryUse memory() const override { return memory_of(blueprint_, operations_); }
  std::vector<OperationChoice> choices() const override { return blueprint_.choices(); }

  /// Random images, uploaded as the ones to come will be, for steps that are only recorded and
  /// timed.
  void upload_anything();
  /// Forgets what such steps have done to the loss scale.
  void restart_loss_scale();
  const kernels::DeviceResult* device_result() const {
    return operations_.context().parameters->result;
  }
  std::int64_t batch() const { return operations_.options().batch; }

 private:
  /// What a plan keeps on the device beside its maps.
  struct Scalars {
    kernels::DeviceResult result;
    kernels::SgdCoefficients sgd;
    kernels::LossScale loss_scale;
  };

  void place_parameters();
  void take(const DeviceLabels& labels);
  void update_range(std::size_t first, std::size_t count);
  Scalars* scalars() const { return reinterpret_cast<Scalars*>(scalars_.data()); }
  bool has_loss_scale() const { return operations_.options().precision == core::Precision::fp16; }
  bool has_dynamic_loss_scale() const;

  CudaOperations operations_;
  Blueprint blueprint_;
  ModelState& host_;
  CudaState& state_;
  cudaStream_t stream_;
  core::Buffer arena_, scratch_, scalars_, vectors_;
  std::shared_ptr<const NativeWeights> weights_;
  std::unique_ptr<NativeGradients> gradients_;  ///< null in inference
  Segments segments_;                           ///< of the update
  ImageUpload upload_;
  std::int64_t images_ = 0;  ///< of the last batch
  mutable std::vector<float> logits_;
};

}  // namespace lockstep::backend::cuda
