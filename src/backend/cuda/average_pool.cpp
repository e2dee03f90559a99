// SPDX-License-Identifier: BSD-3-Clause
// Global average pooling of a feature map. The output is float32.

#include "kernels/pooling.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

template <class T>
class AveragePoolOf : public Operation {
 public:
  AveragePoolOf(const Context& context, Operands given)
      : Operation(std::move(given)), context_(context) {}

  void bind(const MemoryBinding&) override {}

  void forward() override {
    const FeatureMap& in = *operands().inputs[0];
    launch(context_.stream(),
           kernels::AveragePoolForward<T>{in.as<T>(), operands().output->template as<float>(),
                                          in.images, in.shape.pixels(), in.shape.channels});
  }

  void backward() override {
    const FeatureMap& in = *operands().input_gradients[0];
    launch(context_.stream(), kernels::AveragePoolBackward<T>{
                                  operands().output_gradients[0]->template as<float>(), in.as<T>(),
                                  in.images, in.shape.pixels(), in.shape.channels});
  }

 private:
  const Context& context_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::GlobalAveragePool&, const Context& context,
                                          const Step&, Operands operands) {
  return make_for<AveragePoolOf>(operands.inputs[0]->type, context, std::move(operands));
}

}  // namespace lockstep::backend::cuda
