// SPDX-License-Identifier: BSD-3-Clause
// Addition that is not fused into a preceding batch norm: y = left + right; both gradients are dy.

#include <cstring>

#include "operations.hpp"
#include "row_kernels.hpp"

namespace lockstep::backend::cpu {

namespace {

class AddOperation : public Operation {
 public:
  AddOperation(const Context&, Operands given) : Operation(std::move(given)) {}

  void bind(const MemoryBinding&) override {}

  void forward() override {
    const FeatureMap& output = *operands().output;
    std::memcpy(output.data, operands().inputs[0]->data, output.bytes());
    const auto count = static_cast<std::int64_t>(output.elements());
    if (output.type == core::DataType::bfloat16) {
      add_into(operands().inputs[1]->as<core::BFloat16>(), output.as<core::BFloat16>(), count);
    } else {
      add_into(operands().inputs[1]->as<float>(), output.as<float>(), count);
    }
  }

  void backward() override {
    const FeatureMap& gradient = *operands().output_gradients[0];
    for (const FeatureMap* input : operands().input_gradients) {
      if (input != nullptr) std::memcpy(input->data, gradient.data, gradient.bytes());
    }
  }
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Add&, const Context& context, const Step&,
                                          Operands operands) {
  return std::make_unique<AddOperation>(context, std::move(operands));
}

}  // namespace lockstep::backend::cpu
