// SPDX-License-Identifier: BSD-3-Clause
// Element-wise addition that is not fused into a batch norm: y = left + right. Both input gradients
// are dy.

#include "kernels/elementwise.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

void add(const Context& context, const FeatureMap& a, const FeatureMap& b, const FeatureMap& sum) {
  with_type(sum.type, [&](auto zero) {
    using T = decltype(zero);
    launch(context.stream(), kernels::Add<T>{a.as<T>(), b.as<T>(), sum.as<T>(),
                                             static_cast<std::int64_t>(sum.elements())});
  });
}

class AddOperation : public KernelOperation {
 public:
  using KernelOperation::KernelOperation;

  void forward() override {
    add(context(), *operands().inputs[0], *operands().inputs[1], *operands().output);
  }

  void backward() override {
    const FeatureMap& gradient = *operands().output_gradients[0];
    for (const FeatureMap* input : operands().input_gradients) {
      if (input == nullptr) continue;
      check_cuda(cudaMemcpyAsync(input->data, gradient.data, gradient.bytes(),
                                 cudaMemcpyDeviceToDevice, stream()),
                 "copying a gradient");
    }
  }
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Add&, const Context& context, const Step&,
                                          Operands operands) {
  return std::make_unique<AddOperation>(context, std::move(operands));
}

void add_into(const Context& context, const FeatureMap& from, const FeatureMap& to) {
  add(context, to, from, to);
}

}  // namespace lockstep::backend::cuda
