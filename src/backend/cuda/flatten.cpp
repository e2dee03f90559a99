// SPDX-License-Identifier: BSD-3-Clause
// Flattening of a feature map to float32 features in the order (channel, row, column).

#include "kernels/layout.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

class FlattenOperation : public KernelOperation {
 public:
  FlattenOperation(const Context& context, Operands given)
      : KernelOperation(context, std::move(given)) {
    core::check(operands().inputs[0]->shape.elements() == operands().output->shape.elements(),
                "a flattened map has no padded channels");
  }

  void forward() override {
    flatten(stream(), *operands().inputs[0], operands().output->as<float>());
  }

  void backward() override {
    if (operands().input_gradients[0] == nullptr) return;
    unflatten(stream(), operands().output_gradients[0]->as<float>(),
              *operands().input_gradients[0]);
  }
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Flatten&, const Context& context,
                                          const Step&, Operands operands) {
  return std::make_unique<FlattenOperation>(context, std::move(operands));
}

void flatten(cudaStream_t stream, const FeatureMap& from, float* to) {
  with_type(from.type, [&](auto zero) {
    using T = decltype(zero);
    launch(stream, kernels::FlattenForward<T>{from.as<T>(), to, from.images, from.shape.pixels(),
                                              from.shape.channels});
  });
}

void unflatten(cudaStream_t stream, const float* from, const FeatureMap& to) {
  with_type(to.type, [&](auto zero) {
    using T = decltype(zero);
    launch(stream, kernels::FlattenBackward<T>{from, to.as<T>(), to.images, to.shape.pixels(),
                                               to.shape.channels});
  });
}

}  // namespace lockstep::backend::cuda
