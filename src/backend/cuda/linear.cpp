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
        out_(operands().output->shape.channels),
        slabs_(kernels::slab_count<float>(images_, out_ * in_)) {}

  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = false}; }

  std::size_t workspace_bytes() const override {
    if (!context_.is_training() || slabs_ == 1) return 0;
    return static_cast<std::size_t>(slabs_ * out_ * (in_ + 1)) * sizeof(float);
  }

  void bind(const MemoryBinding& binding) override {
    slab_sums_ = reinterpret_cast<float*>(binding.workspace);
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
    sum_parameter_gradients(dy);
    if (operands().input_gradients[0] == nullptr) return;
    launch(context_.stream(), kernels::LinearInputGradient{
                                  dy, as_float(weight_.weight),
                                  operands().input_gradients[0]->as<float>(), images_, in_, out_});
  }

 private:
  static float* as_float(void* data) { return static_cast<float*>(data); }
  const float* x() const { return operands().inputs[0]->as<float>(); }

  void sum_parameter_gradients(const float* dy) {
    float* const dw = as_float(weight_.gradient);
    float* const dbias = as_float(bias_.gradient);
    if (slabs_ == 1) {
      launch(context_.stream(),
             kernels::LinearGradientSlabs{dy, x(), dw, dbias, images_, in_, out_, slabs_});
      return;
    }
    float* const slab_dbias = slab_sums_ + slabs_ * out_ * in_;
    launch(context_.stream(), kernels::LinearGradientSlabs{dy, x(), slab_sums_, slab_dbias, images_,
                                                           in_, out_, slabs_});
    launch(context_.stream(),
           kernels::LinearGradientTotals{slab_sums_, slab_dbias, dw, dbias, in_, out_, slabs_});
  }

  const Context& context_;
  const graph::Node& node_;
  std::int64_t images_, in_, out_;
  std::int64_t slabs_;  ///< ranges of images, so that there are enough threads
  float* slab_sums_ = nullptr;
  DeviceParameters::Place weight_, bias_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Linear&, const Context& context,
                                          const Step& step, Operands operands) {
  return std::make_unique<LinearOperation>(context, step, std::move(operands));
}

}  // namespace lockstep::backend::cuda
