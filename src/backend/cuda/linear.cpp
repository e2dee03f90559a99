// Fully connected layer on float32 features, at every precision: y = x W^T + b, dx = dy W, dW =
// dy^T x, db = sum dy. Shapes: x (images, in), W (out, in), y (images, out).

#include "kernels/linear.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

class LinearOperation : public Operation {
 public:
  LinearOperation(const Context& context, const Step& step, Operands given)
      : Operation(std::move(given)),
        context_(context),
        node_(context.graph->node(step.node)),
        images_(operands().output->images),
        in_(operands().inputs[0]->shape.channels),
        out_(operands().output->shape.channels) {}

  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = false}; }

  void bind(const MemoryBinding&) override {
    weight_ = context_.parameters->places[node_.parameters[0]];
    bias_ = context_.parameters->places[node_.parameters[1]];
  }

  void forward() override {
    launch(context_.stream(),
           kernels::LinearForward{x(), as_float(weight_.weight), as_float(bias_.weight),
                                  operands().output->as<float>(), images_, in_, out_});
  }

  void backward() override {
    const float* const dy = operands().output_gradients[0]->as<float>();
    launch(context_.stream(),
           kernels::LinearWeightGradient{dy, x(), as_float(weight_.gradient), images_, in_, out_});
    launch(context_.stream(),
           kernels::LinearBiasGradient{dy, as_float(bias_.gradient), images_, out_});
    if (operands().input_gradients[0] == nullptr) return;
    launch(context_.stream(), kernels::LinearInputGradient{
                                  dy, as_float(weight_.weight),
                                  operands().input_gradients[0]->as<float>(), images_, in_, out_});
  }

 private:
  static float* as_float(void* data) { return static_cast<float*>(data); }
  const float* x() const { return operands().inputs[0]->as<float>(); }

  const Context& context_;
  const graph::Node& node_;
  std::int64_t images_, in_, out_;
  DeviceParameters::Place weight_, bias_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Linear&, const Context& context,
                                          const Step& step, Operands operands) {
  return std::make_unique<LinearOperation>(context, step, std::move(operands));
}

}  // namespace lockstep::backend::cuda
