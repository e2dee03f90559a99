// Batch norm fused with the residual addition and the ReLU that follow it. For the forward and the
// backward pass, the fastest of several implementations is selected (batch_norm/passes.hpp).

#include <algorithm>
#include <variant>

#include "batch_norm/links.hpp"
#include "batch_norm/passes.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

class BatchNorm final : public Operation {
 public:
  BatchNorm(const Context& context, const Step& step, Ports given)
      : Operation(std::move(given)),
        context_(context),
        id_(step.node),
        node_(context.graph->node(step.node)),
        link_(context.links->of(step.node)) {
    const auto& gradients = ports().input_gradients;
    const BatchNormSetting setting = make_batch_norm_setting(
        context, step,
        {.output_gradients = std::min<std::size_t>(ports().output_gradients.size(), 2),
         .input = gradients[0] != nullptr,
         .residual = has_residual() && gradients[1] != nullptr,
         .output_is_written = link_ == nullptr || !link_->has_reader()});
    channels_ = setting.channels();
    const SumsFrom sums = link_ != nullptr ? SumsFrom::convolution : SumsFrom::batch_norm;
    forward_ = fastest(setting, forward_ways(setting, sums)).way;
    if (context.is_training()) backward_ = fastest(setting, backward_ways(setting, *forward_)).way;
  }

  std::size_t output_gradients_taken() const override { return 2; }

  BackwardNeeds backward_needs() const override {
    return {.inputs = true, .output = backward_ != nullptr && backward_->reads_output()};
  }

  std::size_t kept_bytes() const override {
    return static_cast<std::size_t>(batch_norm_kept_floats(channels_)) * sizeof(float);
  }

  std::size_t scratch_bytes() const override {
    const std::size_t backward = backward_ != nullptr ? backward_->scratch_bytes() : 0;
    return std::max(forward_->scratch_bytes(), backward);
  }

  void bind(const backend::Binding& binding) override {
    const auto& gradients = ports().output_gradients;
    BatchNormMemory memory{.x = ports().inputs[0]->data,
                           .y = ports().output->data,
                           .kept = reinterpret_cast<float*>(binding.kept),
                           .scratch = binding.scratch};
    if (has_residual()) memory.residual = ports().inputs[1]->data;
    if (!gradients.empty()) memory.dy = gradients[0]->data;
    if (gradients.size() > 1) memory.dy_more = gradients[1]->data;
    memory.dx = data_of(ports().input_gradients[0]);
    if (has_residual()) memory.masked = data_of(ports().input_gradients[1]);
    if (link_ != nullptr) {
      memory.sums = link_->sums;
      memory.squares = link_->squares;
      memory.half_scale = link_->scale;
      memory.half_offset = link_->offset;
    }
    bind_parameters(memory);
    forward_->bind(memory);
    if (backward_ != nullptr) backward_->bind(memory);
  }

  void forward() override { forward_->run(); }
  void backward() override { backward_->run(); }

  std::vector<OperationChoice> choices() const override {
    std::vector<OperationChoice> all{{id_, "forward", forward_->name()}};
    if (backward_ != nullptr) all.push_back({id_, "backward", backward_->name()});
    return all;
  }

 private:
  bool has_residual() const { return ports().inputs.size() > 1; }

  static std::byte* data_of(const FeatureMap* map) { return map != nullptr ? map->data : nullptr; }

  void bind_parameters(BatchNormMemory& memory) const {
    const DeviceParameters& parameters = *context_.parameters;
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
  }

  const Context& context_;
  graph::NodeId id_;
  const graph::Node& node_;
  const BatchNormLink* link_;  ///< fusion with adjacent convolutions; null: none
  std::int64_t channels_ = 0;
  std::unique_ptr<BatchNormForward> forward_;
  std::unique_ptr<BatchNormBackward> backward_;  ///< null in inference
};

}  // namespace

BatchNormSetting make_batch_norm_setting(const Context& context, const Step& step,
                                         const BatchNormSurroundings& around) {
  const auto& operation = std::get<graph::BatchNorm>(context.graph->node(step.node).operation);
  return {
      .context = &context,
      .shape = {context.options.batch, step.output.channels, step.output.height, step.output.width},
      .has_residual = step.inputs.size() > 1,
      .has_relu = step.with_relu,
      .epsilon = operation.epsilon,
      .momentum = operation.momentum,
      .output_is_written = around.output_is_written,
      .output_gradients = around.output_gradients,
      .wants_input_gradient = around.input,
      .wants_residual_gradient = around.residual};
}

std::unique_ptr<Operation> make_batch_norm(const Context& context, const Step& step, Ports ports) {
  return std::make_unique<BatchNorm>(context, step, std::move(ports));
}

}  // namespace lockstep::backend::cuda
