// SPDX-License-Identifier: BSD-3-Clause
// Addition that is not fused into a preceding batch norm: y = left + right; both gradients are dy.

#include <cstring>

#include "../kernels/row_kernels.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

class AddOperation : public Operation {
 public:
  using Operation::Operation;

  void forward() override {
    const FeatureMap& output = *operands().output;
    std::memcpy(output.data, operands().inputs[0]->data, output.bytes());
    add_into(*operands().inputs[1], output);
  }

  void backward() override {
    const FeatureMap& gradient = *operands().output_gradients[0];
    for (const FeatureMap* input : operands().input_gradients) {
      if (input != nullptr) std::memcpy(input->data, gradient.data, gradient.bytes());
    }
  }
};

}  // namespace

void add_into(const FeatureMap& from, const FeatureMap& to) {
  with_type(to.type, [&]<class T>() {
    add_into(from.as<T>(), to.as<T>(), static_cast<std::int64_t>(to.elements()));
  });
}

std::unique_ptr<Operation> make_operation(const graph::Add&, const Context&, const Step&,
                                          Operands operands) {
  return std::make_unique<AddOperation>(std::move(operands));
}

}  // namespace lockstep::backend::cpu
