// SPDX-License-Identifier: BSD-3-Clause
// Convolution: forward, backward data and backward weights as cuDNN graphs, each executed by the
// fastest engine found (engine_choice.hpp). Weights and their gradients have the data type of the
// feature maps and the layout KRSC. The gradient of a bias is summed by kernels of this program.
//
// Only the update reads the gradients of the weights, but the preceding operation waits for that of
// the input. With a side stream, the weight gradients are therefore computed beside the gradient of
// the input and the next step of the backward pass, which is memory-bound in most networks (batch
// norm). They are complete before the step after it, so that the maps that they read are kept only
// one step longer.

#include <algorithm>

#include "dnn/convolution_graphs.hpp"
#include "kernels/slabs.hpp"
#include "launch.hpp"
#include "lockstep/graph/operations/convolution.hpp"
#include "operations.hpp"
#include "side_stream.hpp"

namespace lockstep::backend::cuda {

namespace {

class Convolution final : public Operation {
 public:
  Convolution(const graph::Convolution& operation, core::Precision precision,
              const Context& context, const Step& step, Operands given)
      : Operation(std::move(given)),
        context_(context),
        id_(step.node),
        node_(context.graph->node(step.node)),
        fused_(context.fusion_plan.find(step.node)),
        has_bias_(operation.has_bias) {
    const FeatureMap& x = *operands().inputs[0];
    const ConvolutionShape shape =
        make_convolution_shape(operation, x.images, x.shape, operands().output->shape.channels);
    DnnPlanner& planner = *context.planner;
    forward_ = fused_ != nullptr
                   ? convolution_with_sums(planner, shape, precision).graph
                   : convolution_forward(planner, shape, precision,
                                         has_bias_ ? BiasVector::added : BiasVector::none);
    if (!context.is_training()) return;
    if (operands().input_gradients[0] != nullptr)
      data_ = convolution_backward_data(planner, shape, precision);
    weights_ = convolution_backward_weights(planner, shape, precision);
    if (has_bias_) {
      const FeatureMap& y = *operands().output;
      slabs_ = with_type(y.type, [&](auto zero) {
        return kernels::slab_count<decltype(zero)>(rows(), y.shape.channels);
      });
    }
  }

  BackwardNeeds backward_needs() const override { return {.inputs = 1, .output = false}; }

  std::size_t workspace_bytes() const override {
    std::size_t bytes =
        static_cast<std::size_t>(slabs_ * operands().output->shape.channels) * sizeof(float);
    for (const auto& graph : {forward_, data_, weights_}) {
      const bool is_delayed = graph == weights_ && delays_weights();
      if (graph != nullptr && !is_delayed) bytes = std::max(bytes, graph->workspace_bytes());
    }
    return bytes;
  }

  int backward_delay() const override { return delays_weights() ? 1 : 0; }

  std::size_t delayed_workspace_bytes() const override {
    return delays_weights() ? weights_->workspace_bytes() : 0;
  }

  void bind(const MemoryBinding& binding) override {
    namespace tensor = convolution_tensor;
    workspace_ = binding.workspace;
    if (delays_weights()) {
      weights_workspace_ = binding.delayed_workspace;
      weights_done_ = core::make_event();
    } else {
      weights_workspace_ = binding.workspace;
    }
    const auto& places = context_.parameters.places;
    const DeviceParameters::Place& weight = places[node_.parameters[0]];
    const FeatureMap& x = *operands().inputs[0];
    forward_bindings_ = {{tensor::x, x.data},
                         {tensor::weights, weight.weight},
                         {tensor::y, operands().output->data}};
    if (fused_ != nullptr) {
      forward_bindings_.push_back({tensor::sums, fused_->sums});
      forward_bindings_.push_back({tensor::squares, fused_->squares});
    }
    if (has_bias_) {
      const DeviceParameters::Place& bias = places[node_.parameters[1]];
      forward_bindings_.push_back({tensor::bias, bias.weight});
      bias_gradient_ = static_cast<float*>(bias.gradient);
    }
    if (!context_.is_training()) return;
    std::byte* const dy = operands().output_gradients[0]->data;
    weights_bindings_ = {
        {tensor::dy, dy}, {tensor::x, x.data}, {tensor::dweights, weight.gradient}};
    if (data_ == nullptr) return;
    data_bindings_ = {{tensor::dy, dy},
                      {tensor::weights, weight.weight},
                      {tensor::dx, operands().input_gradients[0]->data}};
  }

  void forward() override { forward_->run(forward_bindings_, workspace_); }

  std::string_view last_backward_phase() const override { return "backward weights"; }

  void backward() override {
    OperationListener* const listener = context_.options.listener;
    const bool is_observed = listener != nullptr && listener->is_observing();
    is_beside_ = delays_weights() && !is_observed;
    if (is_beside_) context_.side_stream->fork();
    if (data_ != nullptr) {
      data_->run(data_bindings_, workspace_);
      if (listener != nullptr) listener->ended(id_, "backward data");
    }
    // Behind the data gradient, so that the blocks of the latter, which others wait for, come
    // first.
    if (is_beside_)
      context_.side_stream->run([this] { compute_weight_gradients(); }, weights_done_);
    else
      compute_weight_gradients();
    if (has_bias_) sum_bias_gradient();
  }

  void finish_backward() override {
    if (is_beside_) context_.side_stream->join(weights_done_);
  }

  std::vector<OperationChoice> choices() const override {
    std::vector<OperationChoice> all{{id_, "forward", forward_->engine()}};
    if (data_ != nullptr) all.push_back({id_, "backward data", data_->engine()});
    if (weights_ != nullptr) all.push_back({id_, "backward weights", weights_->engine()});
    return all;
  }

 private:
  /// Without a gradient of the input, no work is left to do beside that of the weights.
  bool delays_weights() const { return context_.uses_side_stream() && data_ != nullptr; }

  void compute_weight_gradients() const { weights_->run(weights_bindings_, weights_workspace_); }

  std::int64_t rows() const {
    return operands().output->images * operands().output->shape.pixels();
  }

  void sum_bias_gradient() {
    const FeatureMap& dy = *operands().output_gradients[0];
    const std::int64_t channels = dy.shape.channels;
    auto* const partial = reinterpret_cast<float*>(workspace_);
    with_type(dy.type, [&](auto zero) {
      using T = decltype(zero);
      launch(context_.stream(),
             kernels::ChannelSlabSums<T>{dy.as<T>(), partial, rows(), channels, slabs_});
    });
    launch(context_.stream(), kernels::ChannelTotals{partial, bias_gradient_, channels, slabs_});
  }

  const Context& context_;
  graph::NodeId id_;
  const graph::Node& node_;
  const FusedBatchNorm* fused_;  ///< fusion with the following batch norm; null: none
  bool has_bias_;
  std::int64_t slabs_ = 0;
  std::shared_ptr<const DnnGraph> forward_, data_, weights_;
  std::vector<Binding> forward_bindings_, data_bindings_, weights_bindings_;
  std::byte* workspace_ = nullptr;
  std::byte* weights_workspace_ = nullptr;
  core::Event weights_done_;  ///< on the side stream
  bool is_beside_ = false;    ///< whether the last backward pass used the side stream
  float* bias_gradient_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_convolution(const graph::Convolution& operation,
                                            core::Precision precision, const Context& context,
                                            const Step& step, Operands operands) {
  return std::make_unique<Convolution>(operation, precision, context, step, std::move(operands));
}

std::unique_ptr<Operation> make_operation(const graph::Convolution& operation,
                                          const Context& context, const Step& step,
                                          Operands operands) {
  return make_convolution(operation, context.options.precision, context, step, std::move(operands));
}

}  // namespace lockstep::backend::cuda
