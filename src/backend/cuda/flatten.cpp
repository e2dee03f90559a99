// SPDX-License-Identifier: BSD-3-Clause
// Flattening of a feature map to float32 features in the order (channel, row, column).

#include "kernels/flatten.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

template <class T>
class FlattenOf : public Operation {
 public:
  FlattenOf(const Context& context, Operands given)
      : Operation(std::move(given)), context_(context) {
    core::check(operands().inputs[0]->shape.elements() == operands().output->shape.elements(),
                "a flattened map has no padded channels");
  }

  void bind(const MemoryBinding&) override {}

  void forward() override {
    const FeatureMap& in = *operands().inputs[0];
    launch(context_.stream(),
           kernels::FlattenForward<T>{in.as<T>(), operands().output->template as<float>(),
                                      in.images, in.shape.pixels(), in.shape.channels});
  }

  void backward() override {
    if (operands().input_gradients[0] == nullptr) return;
    const FeatureMap& in = *operands().input_gradients[0];
    launch(context_.stream(), kernels::FlattenBackward<T>{
                                  operands().output_gradients[0]->template as<float>(), in.as<T>(),
                                  in.images, in.shape.pixels(), in.shape.channels});
  }

 private:
  const Context& context_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Flatten&, const Context& context,
                                          const Step&, Operands operands) {
  return make_for<FlattenOf>(operands.inputs[0]->type, context, std::move(operands));
}

}  // namespace lockstep::backend::cuda
