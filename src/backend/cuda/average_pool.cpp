// SPDX-License-Identifier: BSD-3-Clause
// Global average pooling of a feature map. The output is float32.

#include "kernels/pooling.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

template <class T>
class AveragePoolOf : public KernelOperation {
 public:
  using KernelOperation::KernelOperation;

  void forward() override {
    const FeatureMap& in = *operands().inputs[0];
    launch(stream(),
           kernels::AveragePoolForward<T>{in.as<T>(), operands().output->as<float>(), in.images,
                                          in.shape.pixels(), in.shape.channels});
  }

  void backward() override {
    const FeatureMap& in = *operands().input_gradients[0];
    launch(stream(),
           kernels::AveragePoolBackward<T>{operands().output_gradients[0]->as<float>(), in.as<T>(),
                                           in.images, in.shape.pixels(), in.shape.channels});
  }
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::GlobalAveragePool&, const Context& context,
                                          const Step&, Operands operands) {
  return make_for<AveragePoolOf>(operands.inputs[0]->type, context, std::move(operands));
}

}  // namespace lockstep::backend::cuda
