// SPDX-License-Identifier: BSD-3-Clause
// Softmax cross-entropy with label smoothing s on plain float32 logits x (images, classes), one
// image at a time:
//   loss = log sum_k exp(x_k) - sum_k q_k x_k,  q = (1 - s) one_hot(label) + s / classes
//   dx_k = (softmax(x)_k - q_k) / images
// Arithmetic is float64; the largest logit is subtracted before exp.

#include <algorithm>
#include <cmath>

#include "lockstep/graph/operations/softmax_cross_entropy.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

class SoftmaxCrossEntropy : public Operation {
 public:
  SoftmaxCrossEntropy(const graph::SoftmaxCrossEntropy& operation, const Context& context,
                      Operands given)
      : Operation(std::move(given)),
        smoothing_(static_cast<double>(operation.label_smoothing)),
        classes_(static_cast<std::size_t>(operands().inputs[0]->shape.channels)),
        batch_(*context.batch),
        log_sums_(static_cast<std::size_t>(operands().inputs[0]->images)) {}

  BackwardNeeds backward_needs() const override { return {.inputs = 1, .output = false}; }
  void forward() override {
    const std::size_t images = batch_.labels.size();
    BatchResult result{.images = static_cast<std::int64_t>(images)};
    for (std::size_t image = 0; image < images; ++image) {
      const std::span<const float> x = logits(image);
      const auto label = static_cast<std::size_t>(batch_.labels[image]);
      const auto largest = std::ranges::max_element(x);
      double sum = 0, total = 0;
      for (const float value : x) {
        sum += std::exp(static_cast<double>(value) - static_cast<double>(*largest));
        total += static_cast<double>(value);
      }
      log_sums_[image] = std::log(sum) + static_cast<double>(*largest);
      const double expected = (1 - smoothing_) * static_cast<double>(x[label]) +
                              smoothing_ / static_cast<double>(classes_) * total;
      result.loss_sum += log_sums_[image] - expected;
      result.correct += static_cast<std::size_t>(largest - x.begin()) == label ? 1 : 0;
    }
    batch_.result = result;
  }

  void backward() override {
    float* const gradients = operands().input_gradients[0]->as<float>();
    const std::size_t images = batch_.labels.size();
    const double share = 1 / static_cast<double>(images);
    for (std::size_t image = 0; image < images; ++image) {
      const std::span<const float> x = logits(image);
      const auto label = static_cast<std::size_t>(batch_.labels[image]);
      for (std::size_t k = 0; k < classes_; ++k) {
        const double q =
            (k == label ? 1 - smoothing_ : 0) + smoothing_ / static_cast<double>(classes_);
        const double probability = std::exp(static_cast<double>(x[k]) - log_sums_[image]);
        gradients[image * classes_ + k] = static_cast<float>((probability - q) * share);
      }
    }
  }

 private:
  std::span<const float> logits(std::size_t image) const {
    return {operands().inputs[0]->as<float>() + image * classes_, classes_};
  }

  double smoothing_;
  std::size_t classes_;
  BatchData& batch_;
  std::vector<double> log_sums_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const graph::SoftmaxCrossEntropy& operation,
                                          const Context& context, const Step&, Operands operands) {
  return std::make_unique<SoftmaxCrossEntropy>(operation, context, std::move(operands));
}

}  // namespace lockstep::backend::cpu
