// SPDX-License-Identifier: BSD-3-Clause
// Fully connected layer on plain float32 features, in every precision: y = x W^T + b, dx = dy W, dW
// = dy^T x, db = sum dy. Shapes: x (images, in), W (out, in), y (images, out).

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>

#include "../onednn.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

/// Computes C = op(A) op(B) + beta C; C has shape (m, n), all matrices are row-major.
void multiply(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
              const float* a, const float* b, float beta, float* c) {
  const auto status =
      dnnl_sgemm(transpose_a, transpose_b, m, n, k, 1.0f, a, transpose_a == 'N' ? k : m, b,
                 transpose_b == 'N' ? n : k, beta, c, n);
  require_success(status, "a matrix product runs");
}

class LinearOperation : public Operation {
 public:
  LinearOperation(const Context& context, const Step& step, Operands given)
      : Operation(std::move(given)),
        context_(context),
        node_(context.graph->node(step.node)),
        images_(operands().output->images),
        in_(operands().inputs[0]->shape.channels),
        out_(operands().output->shape.channels) {}

  BackwardNeeds backward_needs() const override { return {.inputs = 1, .output = false}; }

  void bind(const MemoryBinding& binding) override {
    weight_ = context_.parameter(binding.state->parameters, node_, 0).data();
    bias_ = context_.parameter(binding.state->parameters, node_, 1).data();
    if (context_.options.mode == Mode::inference) return;
    weight_gradient_ = context_.parameter(binding.state->gradients, node_, 0).data();
    bias_gradient_ = context_.parameter(binding.state->gradients, node_, 1).data();
  }

  void forward() override {
    float* const y = operands().output->as<float>();
    for (std::int64_t image = 0; image < images_; ++image)
      std::copy_n(bias_, out_, y + image * out_);
    multiply('N', 'T', images_, out_, in_, operands().inputs[0]->as<float>(), weight_, 1, y);
  }

  void backward() override {
    const float* const dy = operands().output_gradients[0]->as<float>();
    multiply('T', 'N', out_, in_, images_, dy, operands().inputs[0]->as<float>(), 0,
             weight_gradient_);
    std::fill_n(bias_gradient_, out_, 0.0f);
    for (std::int64_t image = 0; image < images_; ++image) {
      for (std::int64_t o = 0; o < out_; ++o) bias_gradient_[o] += dy[image * out_ + o];
    }
    if (operands().input_gradients[0] == nullptr) return;
    multiply('N', 'N', images_, in_, out_, dy, weight_, 0,
             operands().input_gradients[0]->as<float>());
  }

 private:
  const Context& context_;
  const graph::Node& node_;
  std::int64_t images_, in_, out_;
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
  float* weight_gradient_ = nullptr;
  float* bias_gradient_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::Linear&, const Context& context,
                                          const Step& step, Operands operands) {
  return std::make_unique<LinearOperation>(context, step, std::move(operands));
}

}  // namespace lockstep::backend::cpu
