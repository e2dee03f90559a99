// Max-pooling. The gradient goes to the first of the largest values in a window; the backward pass
// computes its position again from the input.

#include <variant>

#include "kernels/pooling.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

template <class T>
class MaxPoolOf : public Operation {
 public:
  MaxPoolOf(const Context& context, const Step& step, Ports given)
      : Operation(std::move(given)), context_(context) {
    const auto& operation = std::get<graph::MaxPool>(context.graph->node(step.node).operation);
    const FeatureMap& in = *ports().inputs[0];
    const FeatureMap& out = *ports().output;
    shape_ = {in.images,         in.shape.height,  in.shape.width,
              in.shape.channels, out.shape.height, out.shape.width,
              operation.kernel,  operation.stride, operation.padding};
  }

  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = false}; }
  void bind(const Binding&) override {}

  void forward() override {
    launch(context_.stream(), kernels::MaxPoolForward<T>{ports().inputs[0]->template as<T>(),
                                                         ports().output->template as<T>(), shape_});
  }

  void backward() override {
    launch(context_.stream(),
           kernels::MaxPoolBackward<T>{ports().inputs[0]->template as<T>(),
                                       ports().output_gradients[0]->template as<T>(),
                                       ports().input_gradients[0]->template as<T>(), shape_});
  }

 private:
  const Context& context_;
  kernels::MaxPoolShape shape_{};
};

}  // namespace

std::unique_ptr<Operation> make_max_pool(const Context& context, const Step& step, Ports ports) {
  return make_for<MaxPoolOf>(ports.output->type, context, step, std::move(ports));
}

}  // namespace lockstep::backend::cuda
