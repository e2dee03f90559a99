// Softmax cross-entropy with label smoothing s on plain float32 logits x (images, classes), one
// image at a time:
//   loss = log sum_k exp(x_k) - sum_k q_k x_k,  q = (1 - s) one_hot(label) + s / classes
//   dx_k = (softmax(x)_k - q_k) / images
// Arithmetic is float64; the largest logit is subtracted before exp.

#include <algorithm>
#include <cmath>
#include <variant>

#include "lockstep/core/error.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

class SoftmaxCrossEntropy : public Loss {
 public:
  SoftmaxCrossEntropy(const Context& context, const Step& step, Operands given)
      : Loss(std::move(given)),
        smoothing_(static_cast<double>(
            std::get<graph::SoftmaxCrossEntropy>(context.graph->node(step.node).operation)
                .label_smoothing)),
        classes_(static_cast<std::size_t>(operands().inputs[0]->shape.channels)),
        labels_(static_cast<std::size_t>(operands().inputs[0]->images)),
        log_sums_(labels_.size()) {}

  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = false}; }
  void bind(const MemoryBinding&) override {}

  void set_labels(std::span<const std::int32_t> labels) override {
    for (const std::int32_t label : labels) {
      core::check(label >= 0 && static_cast<std::size_t>(label) < classes_,
                  "a label is one of the classes");
    }
    std::ranges::copy(labels, labels_.begin());
    images_ = labels.size();
  }

  void forward() override {
    result_ = {.loss_sum = 0, .correct = 0, .images = static_cast<std::int64_t>(images_)};
    for (std::size_t image = 0; image < images_; ++image) {
      const std::span<const float> x = logits(image);
      const auto label = static_cast<std::size_t>(labels_[image]);
      const auto largest = std::ranges::max_element(x);
      double sum = 0, total = 0;
      for (const float value : x) {
        sum += std::exp(static_cast<double>(value) - static_cast<double>(*largest));
        total += static_cast<double>(value);
      }
      log_sums_[image] = std::log(sum) + static_cast<double>(*largest);
      const double expected = (1 - smoothing_) * static_cast<double>(x[label]) +
                              smoothing_ / static_cast<double>(classes_) * total;
      result_.loss_sum += log_sums_[image] - expected;
      result_.correct += static_cast<std::size_t>(largest - x.begin()) == label ? 1 : 0;
    }
  }

  void backward() override {
    float* const gradients = operands().input_gradients[0]->as<float>();
    const double share = 1 / static_cast<double>(images_);
    for (std::size_t image = 0; image < images_; ++image) {
      const std::span<const float> x = logits(image);
      const auto label = static_cast<std::size_t>(labels_[image]);
      for (std::size_t k = 0; k < classes_; ++k) {
        const double q =
            (k == label ? 1 - smoothing_ : 0) + smoothing_ / static_cast<double>(classes_);
        const double probability = std::exp(static_cast<double>(x[k]) - log_sums_[image]);
        gradients[image * classes_ + k] = static_cast<float>((probability - q) * share);
      }
    }
  }

  BatchResult result() const override { return result_; }

 private:
  std::span<const float> logits(std::size_t image) const {
    return {operands().inputs[0]->as<float>() + image * classes_, classes_};
  }

  double smoothing_;
  std::size_t classes_;
  std::vector<std::int32_t> labels_;
  std::vector<double> log_sums_;
  std::size_t images_ = 0;
  BatchResult result_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(const Context& context, const Step& step,
                                                 Operands operands) {
  return std::make_unique<SoftmaxCrossEntropy>(context, step, std::move(operands));
}

}  // namespace lockstep::backend::cpu
