// SPDX-License-Identifier: BSD-3-Clause
// ReLU that is not fused into a batch norm: y = max(x, 0), dx = dy where y > 0, else 0.

#include "kernels/elementwise.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

template <class T>
class ReluOf : public KernelOperation {
 public:
  using KernelOperation::KernelOperation;

  BackwardNeeds backward_needs() const override { return {.inputs = 0, .output = true}; }
  std::size_t output_gradients_taken() const override { return 2; }

  void forward() override {
    launch(stream(), kernels::ReluForward<T>{operands().inputs[0]->as<T>(),
                                             operands().output->as<T>(), size()});
  }

  void backward() override {
    const auto& gradients = operands().output_gradients;
    launch(stream(),
           kernels::ReluBackward<T>{
               gradients[0]->as<T>(), gradients.size() > 1 ? gradients[1]->as<T>() : nullptr,
               operands().output->as<T>(), operands().input_gradients[0]->as<T>(), size()});
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(operands().output->elements()); }
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Relu&, const Context& context, const Step&,
                                          Operands operands) {
  return make_for<ReluOf>(operands.output->type, context, std::move(operands));
}

}  // namespace lockstep::backend::cuda
