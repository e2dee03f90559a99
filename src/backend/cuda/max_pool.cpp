// SPDX-License-Identifier: BSD-3-Clause
// Max-pooling. The gradient goes to the first of the largest values in a window; the backward pass
// computes its position again from the input.

#include "lockstep/graph/operations/max_pool.hpp"
#include "kernels/pooling.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

template <class T>
class MaxPoolOf : public KernelOperation {
 public:
  MaxPoolOf(const graph::MaxPool& operation, const Context& context, Operands given)
      : KernelOperation(context, std::move(given)) {
    const FeatureMap& in = *operands().inputs[0];
    const FeatureMap& out = *operands().output;
    shape_ = {in.images,         in.shape.height,  in.shape.width,
              in.shape.channels, out.shape.height, out.shape.width,
              operation.kernel,  operation.stride, operation.padding};
  }

  BackwardNeeds backward_needs() const override { return {.inputs = 1, .output = false}; }

  void forward() override {
    launch(stream(), kernels::MaxPoolForward<T>{operands().inputs[0]->as<T>(),
                                                operands().output->as<T>(), shape_});
  }

  void backward() override {
    launch(stream(), kernels::MaxPoolBackward<T>{operands().inputs[0]->as<T>(),
                                                 operands().output_gradients[0]->as<T>(),
                                                 operands().input_gradients[0]->as<T>(), shape_});
  }

 private:
  kernels::MaxPoolShape shape_{};
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::MaxPool& operation, const Context& context,
                                          const Step&, Operands operands) {
  return make_for<MaxPoolOf>(operands.output->type, operation, context, std::move(operands));
}

}  // namespace lockstep::backend::cuda
