// SPDX-License-Identifier: BSD-3-Clause
// Flattening: a feature map in any layout and type to plain float32 features (images, channels x
// height x width), in the order (channel, row, column). For 1 x 1 maps it only converts layout and
// type.

#include "boundary.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

std::span<float> values_of(const FeatureMap& features) {
  return {features.as<float>(), features.elements()};
}

class FlattenOperation : public Operation {
 public:
  FlattenOperation(const Context& context, Operands given)
      : Operation(std::move(given)), threads_(context.threads) {}

  void forward() override {
    read_values(*operands().inputs[0], values_of(*operands().output), threads_);
  }

  void backward() override {
    if (operands().input_gradients[0] == nullptr) return;
    write_values(values_of(*operands().output_gradients[0]), *operands().input_gradients[0],
                 threads_);
  }

 private:
  int threads_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Flatten&, const Context& context,
                                          const Step&, Operands operands) {
  return std::make_unique<FlattenOperation>(context, std::move(operands));
}

}  // namespace lockstep::backend::cpu
