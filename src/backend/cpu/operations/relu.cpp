// SPDX-License-Identifier: BSD-3-Clause
// ReLU that is not fused into a preceding batch norm: y = max(x, 0), dx = dy if y > 0, else 0.

#include "../kernels/vectors.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

template <class T>
class ReluOf : public Operation {
 public:
  ReluOf(const Context& context, Operands given)
      : Operation(std::move(given)), threads_(context.threads) {}

  BackwardNeeds backward_needs() const override { return {.inputs = 0, .output = true}; }
  std::optional<std::size_t> overwritten_gradient(std::size_t) const override { return 0; }
  void forward() override {
    const T* const x = operands().inputs[0]->template as<T>();
    keep_where_positive(x, x, operands().output->template as<T>());
  }

  void backward() override {
    keep_where_positive(operands().output_gradients[0]->template as<T>(),
                        operands().output->template as<T>(),
                        operands().input_gradients[0]->template as<T>());
  }

 private:
  void keep_where_positive(const T* values, const T* sign, T* to) const {
    const auto count = static_cast<std::int64_t>(operands().output->elements());
#pragma omp parallel for simd num_threads(threads_)
    for (std::int64_t i = 0; i < count; ++i) to[i] = load(sign[i]) > 0 ? values[i] : T{};
  }

  int threads_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Relu&, const Context& context, const Step&,
                                          Operands operands) {
  return make_for<ReluOf>(operands.output->type, context, std::move(operands));
}

}  // namespace lockstep::backend::cpu
