// SPDX-License-Identifier: BSD-3-Clause
// Softmax cross-entropy with label smoothing on float32 logits (images, classes). The kernel takes
// so little time that the backward pass computes the losses again instead of storing the
// probabilities.

#include "lockstep/graph/operations/softmax_cross_entropy.hpp"
#include "kernels/loss.hpp"
#include "launch.hpp"
#include "operations.hpp"

namespace lockstep::backend::cuda {

namespace {

class SoftmaxCrossEntropy : public Operation {
 public:
  SoftmaxCrossEntropy(const graph::SoftmaxCrossEntropy& operation, const Context& context,
                      Operands given)
      : Operation(std::move(given)),
        context_(context),
        smoothing_(operation.label_smoothing),
        rows_(operands().inputs[0]->images),
        classes_(operands().inputs[0]->shape.channels) {}

  BackwardNeeds backward_needs() const override { return {.inputs = 1, .output = false}; }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(rows_) * (sizeof(double) + sizeof(std::int32_t));
  }

  void bind(const MemoryBinding& binding) override {
    losses_ = reinterpret_cast<double*>(binding.workspace);
    hits_ = reinterpret_cast<std::int32_t*>(losses_ + rows_);
  }

  void forward() override { run(nullptr); }

  void backward() override { run(operands().input_gradients[0]->as<float>()); }

 private:
  void run(float* gradients) {
    const UploadedStep& step = *context_.step;
    launch(context_.stream(),
           kernels::SoftmaxCrossEntropy{operands().inputs[0]->as<float>(), step.labels, step.source,
                                        context_.parameters.loss_scale, losses_, hits_, gradients,
                                        rows_, step.images, classes_, smoothing_});
    if (gradients != nullptr) return;
    launch(context_.stream(),
           kernels::SumResults{losses_, hits_, context_.parameters.result, rows_});
  }

  const Context& context_;
  float smoothing_;
  std::int64_t rows_, classes_;
  double* losses_ = nullptr;
  std::int32_t* hits_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::SoftmaxCrossEntropy& operation,
                                          const Context& context, const Step&, Operands operands) {
  return std::make_unique<SoftmaxCrossEntropy>(operation, context, std::move(operands));
}

}  // namespace lockstep::backend::cuda
