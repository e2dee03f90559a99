// SPDX-License-Identifier: BSD-3-Clause
// Batch norm fused with the residual addition and the ReLU that follow it. For the forward and the
// backward pass, the fastest of several implementations is selected (batch_norm/passes.hpp).

#include <algorithm>

#include "batch_norm/passes.hpp"
#include "batch_norm/trial.hpp"
#include "lockstep/graph/operations/batch_norm.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

class BatchNorm final : public Operation {
 public:
  BatchNorm(const graph::BatchNorm& operation, const Context& context, const Step& step,
            Operands given)
      : Operation(std::move(given)),
        context_(context),
        id_(step.node),
        node_(context.graph->node(step.node)),
        fused_(context.fusion_plan.find(step.node)) {
    const auto& gradients = operands().input_gradients;
    BatchNormSetting setting = make_batch_norm_setting(operation, context, step);
    setting.output_gradients = std::min<std::size_t>(operands().output_gradients.size(), 2);
    setting.wants_input_gradient = gradients[0] != nullptr;
    setting.wants_residual_gradient = has_residual() && gradients[1] != nullptr;
    channels_ = setting.channels();
    const SumsFrom sums = fused_ != nullptr ? SumsFrom::convolution : SumsFrom::batch_norm;
    BatchNormCandidates forward = forward_candidates(setting, sums);
    if (!context.is_training()) {
      forward_ = std::move(forward.front());
      return;
    }
    forward_ = fastest(setting, std::move(forward)).pass;
    backward_ = fastest(setting, backward_candidates(setting, *forward_)).pass;
  }

  std::size_t output_gradients_taken() const override { return 2; }

  BackwardNeeds backward_needs() const override {
    return {.inputs = operands().inputs.size(),
            .output = backward_ != nullptr && backward_->reads_output()};
  }

  std::size_t saved_bytes() const override {
    return static_cast<std::size_t>(batch_norm_saved_floats(channels_)) * sizeof(float);
  }

  std::size_t workspace_bytes() const override {
    const std::size_t backward = backward_ != nullptr ? backward_->workspace_bytes() : 0;
    return std::max(forward_->workspace_bytes(), backward);
  }

  void bind(const MemoryBinding& binding) override {
    const auto& gradients = operands().output_gradients;
    BatchNormMemory memory{.x = operands().inputs[0]->data,
                           .y = operands().output->data,
                           .saved = reinterpret_cast<float*>(binding.saved),
                           .workspace = binding.workspace};
    if (has_residual()) memory.residual = operands().inputs[1]->data;
    if (!gradients.empty()) memory.dy = gradients[0]->data;
    if (gradients.size() > 1) memory.dy_more = gradients[1]->data;
    memory.dx = data_of(operands().input_gradients[0]);
    if (has_residual()) memory.masked = data_of(operands().input_gradients[1]);
    if (fused_ != nullptr) {
      memory.sums = fused_->sums;
      memory.squares = fused_->squares;
    }
    const DeviceParameters& parameters = context_.parameters;
    const auto& gamma = parameters.places[node_.parameters[0]];
    const auto& beta = parameters.places[node_.parameters[1]];
    memory.gamma = static_cast<float*>(gamma.weight);
    memory.beta = static_cast<float*>(beta.weight);
    memory.gamma_gradient = static_cast<float*>(gamma.gradient);
    memory.beta_gradient = static_cast<float*>(beta.gradient);
    const auto statistic = [&](std::size_t i) {
      return parameters.statistics + context_.graph->statistics()[node_.statistics[i]].offset;
    };
    memory.running_mean = statistic(0);
    memory.running_variance = statistic(1);
    forward_->bind(memory);
    if (backward_ != nullptr) backward_->bind(memory);
  }

  void forward() override { forward_->run(); }
  void backward() override { backward_->run(); }

  std::vector<OperationChoice> choices() const override {
    std::vector<OperationChoice> all{{id_, "forward", forward_->name(), 1, forward_maps()}};
    if (backward_ != nullptr)
      all.push_back({id_, "backward", backward_->name(), 1, backward_maps()});
    return all;
  }

 private:
  bool has_residual() const { return operands().inputs.size() > 1; }

  /// Returns `OperationChoice::maps` of the forward pass of a training step: x is read for the sums
  /// and for y.
  double forward_maps() const { return (fused_ != nullptr ? 2 : 3) + (has_residual() ? 1 : 0); }

  /// Returns `OperationChoice::maps` of the backward pass: the gradients of the parameters are
  /// summed first, then the gradient of x is computed.
  double backward_maps() const {
    const auto& gradients = operands().input_gradients;
    const double dy = static_cast<double>(
                          std::min(operands().output_gradients.size(), output_gradients_taken())) +
                      (backward_->reads_output() ? 1 : 0);
    const bool is_stored = has_residual() && gradients[1] != nullptr;  // dy, summed and masked
    const double sums = dy + 1 + (is_stored ? 1 : 0);
    return gradients[0] != nullptr ? sums + (is_stored ? 1 : dy) + 2 : sums;
  }

  static std::byte* data_of(const FeatureMap* map) { return map != nullptr ? map->data : nullptr; }

  const Context& context_;
  graph::NodeId id_;
  const graph::Node& node_;
  const FusedBatchNorm* fused_;  ///< fusion with the preceding convolution; null: none
  std::int64_t channels_ = 0;
  std::unique_ptr<BatchNormPass> forward_;
  std::unique_ptr<BatchNormPass> backward_;  ///< null in inference
};

}  // namespace

BatchNormSetting make_batch_norm_setting(const graph::BatchNorm& operation, const Context& context,
                                         const Step& step) {
  return {
      .context = &context,
      .shape = {context.options.batch, step.output.channels, step.output.height, step.output.width},
      .has_residual = step.inputs.size() > 1,
      .has_relu = step.with_relu,
      .epsilon = operation.epsilon,
      .momentum = operation.momentum};
}

std::unique_ptr<Operation> make_operation(const graph::BatchNorm& operation, const Context& context,
                                          const Step& step, Operands operands) {
  return std::make_unique<BatchNorm>(operation, context, step, std::move(operands));
}

}  // namespace lockstep::backend::cuda
