// Convolutions: the three directions as graphs of cuDNN, each by the engine that was found fastest
// (engine_choice.hpp). Weights and their gradients are in the type of the maps, KRSC; a bias's
// gradient is a sum of our own.

#include <algorithm>
#include <variant>

#include "convolution_graphs.hpp"
#include "kernels/slabs.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

using Bindings = std::vector<Binding>;

class Convolution final : public Operation {
 public:
  Convolution(const Context& context, const Step& step, Ports given)
      : Operation(std::move(given)),
        context_(context),
        id_(step.node),
        node_(context.graph->node(step.node)) {
    const auto& operation = std::get<graph::Convolution>(node_.operation);
    const FeatureMap& x = *ports().inputs[0];
    const FeatureMap& y = *ports().output;
    const ConvolutionShape shape{.images = y.images,
                                 .in_channels = x.shape.channels,
                                 .in_height = x.shape.height,
                                 .in_width = x.shape.width,
                                 .out_channels = y.shape.channels,
                                 .kernel = operation.kernel,
                                 .stride = operation.stride,
                                 .padding = operation.padding};
    const core::Precision precision = context.options.precision;
    has_bias_ = operation.has_bias;
    forward_ = convolution_forward(*context.planner, shape, precision,
                                   has_bias_ ? BiasVector::added : BiasVector::none);
    if (!context.is_training()) return;
    if (ports().input_gradients[0] != nullptr)
      data_ = convolution_backward_data(*context.planner, shape, precision);
    weights_ = convolution_backward_weights(*context.planner, shape, precision);
    if (has_bias_) {
      slabs_ = with_type(y.type, [&](auto zero) {
        return kernels::slab_count<decltype(zero)>(rows(), y.shape.channels);
      });
    }
  }

  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = false}; }

  std::size_t scratch_bytes() const override {
    std::size_t bytes =
        static_cast<std::size_t>(slabs_ * ports().output->shape.channels) * sizeof(float);
    for (const auto& graph : {forward_, data_, weights_}) {
      if (graph != nullptr) bytes = std::max(bytes, graph->workspace_bytes());
    }
    return bytes;
  }

  void bind(const backend::Binding& binding) override {
    namespace tensor = convolution_tensor;
    scratch_ = binding.scratch;
    const auto& places = context_.parameters->places;
    const DeviceParameters::Place& weight = places[node_.parameters[0]];
    const FeatureMap& x = *ports().inputs[0];
    forward_bindings_ = {
        {tensor::x, x.data}, {tensor::weights, weight.weight}, {tensor::y, ports().output->data}};
    if (has_bias_) {
      const DeviceParameters::Place& bias = places[node_.parameters[1]];
      forward_bindings_.push_back({tensor::bias, bias.weight});
      bias_gradient_ = static_cast<float*>(bias.gradient);
    }
    if (!context_.is_training()) return;
    std::byte* const dy = ports().output_gradients[0]->data;
    weights_bindings_ = {
        {tensor::dy, dy}, {tensor::x, x.data}, {tensor::dweights, weight.gradient}};
    if (data_ == nullptr) return;
    data_bindings_ = {{tensor::dy, dy},
                      {tensor::weights, weight.weight},
                      {tensor::dx, ports().input_gradients[0]->data}};
  }

  void forward() override { forward_->run(forward_bindings_, scratch_); }

  void backward() override {
    if (data_ != nullptr) {
      data_->run(data_bindings_, scratch_);
      if (OperationListener* const listener = context_.options.listener)
        listener->ended(id_, "backward data");
    }
    weights_->run(weights_bindings_, scratch_);
    if (has_bias_) sum_bias_gradient();
  }

  std::vector<OperationChoice> choices() const override {
    std::vector<OperationChoice> all{{id_, "forward", forward_->engine()}};
    if (data_ != nullptr) all.push_back({id_, "backward data", data_->engine()});
    if (weights_ != nullptr) all.push_back({id_, "backward weights", weights_->engine()});
    return all;
  }

 private:
  std::int64_t rows() const { return ports().output->images * ports().output->shape.pixels(); }

  void sum_bias_gradient() {
    const FeatureMap& dy = *ports().output_gradients[0];
    const std::int64_t channels = dy.shape.channels;
    auto* const partial = reinterpret_cast<float*>(scratch_);
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
  bool has_bias_ = false;
  std::int64_t slabs_ = 0;
  std::shared_ptr<const DnnGraph> forward_, data_, weights_;
  Bindings forward_bindings_, data_bindings_, weights_bindings_;
  std::byte* scratch_ = nullptr;
  float* bias_gradient_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_convolution(const Context& context, const Step& step, Ports ports) {
  return std::make_unique<Convolution>(context, step, std::move(ports));
}

}  // namespace lockstep::backend::cuda
