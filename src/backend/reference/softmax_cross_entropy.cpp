// SPDX-License-Identifier: BSD-3-Clause
// Cross-entropy of softmax with label smoothing s (Szegedy et al., "Rethinking the Inception
// architecture", 2016), K classes, q[k] = (1 - s) [k = label] + s / K:
//   log p[k] = x[k] - max x - log sum_j exp(x[j] - max x)
//   loss[n] = -sum_k q[k] log p[k];  the loss of the batch is the mean over n
//   dx[n,k] = (p[k] - q[k]) / batch
// A prediction is correct if the largest score, the first one if several are equal, is that of the
// label.

#include <algorithm>
#include <cmath>

#include "lockstep/graph/operations/softmax_cross_entropy.hpp"
#include "operations.hpp"

namespace lockstep::backend::reference {

namespace {

double target(const graph::SoftmaxCrossEntropy& operation, std::int64_t k, std::int32_t label,
              std::int64_t classes) {
  const double smoothing = operation.label_smoothing;
  return (k == label ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
}

}  // namespace

void forward(const graph::SoftmaxCrossEntropy& operation, NodeData& node, PlanData& plan) {
  const Tensor& x = node.x();
  Tensor& y = node.y;
  const auto& labels = plan.labels;
  const std::int64_t classes = x.shape.channels;
  node.saved.resize(x.all().size());  // the softmax of the scores
  BatchResult result{.loss_sum = 0, .correct = 0, .images = x.batch};
  for (std::int64_t n = 0; n < x.batch; ++n) {
    const std::span scores = x.all().subspan(n * classes, classes);
    const std::span shares = std::span(node.saved).subspan(n * classes, classes);
    const auto largest = std::ranges::max_element(scores);
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - *largest);
    y.values[n] = 0;
    for (std::int64_t k = 0; k < classes; ++k) {
      const double log_share = scores[k] - *largest - std::log(sum);
      shares[k] = std::exp(log_share);
      y.values[n] -= target(operation, k, labels[n], classes) * log_share;
    }
    result.loss_sum += y.values[n];
    result.correct += largest - scores.begin() == labels[n] ? 1 : 0;
  }
  plan.result = result;
}

void backward(const graph::SoftmaxCrossEntropy& operation, NodeData& node, const PlanData& plan) {
  Tensor* const dx = node.dx();
  if (dx == nullptr) return;
  const auto& labels = plan.labels;
  const std::int64_t classes = dx->shape.channels;
  for (std::int64_t n = 0; n < dx->batch; ++n) {
    for (std::int64_t k = 0; k < classes; ++k) {
      const double difference =
          node.saved[n * classes + k] - target(operation, k, labels[n], classes);
      dx->values[n * classes + k] += difference / static_cast<double>(dx->batch);
    }
  }
}

}  // namespace lockstep::backend::reference
