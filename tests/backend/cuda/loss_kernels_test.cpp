// SPDX-License-Identifier: BSD-3-Clause
// Tests the arithmetic of the CUDA kernels of the loss on the host, against formulas in float64.

#include "backend/cuda/kernels/loss.hpp"
#include "kernels.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

struct WantedLoss {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::vector<double> gradients;
};

WantedLoss wanted_loss(const std::vector<double>& x, const std::vector<std::int32_t>& labels,
                       std::size_t rows, double smoothing, double scale) {
  const std::size_t classes = x.size() / rows;
  WantedLoss want{.gradients = std::vector<double>(x.size())};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = x.begin() + static_cast<std::ptrdiff_t>(i * classes);
    const auto end = row + static_cast<std::ptrdiff_t>(classes);
    const auto label = static_cast<std::size_t>(labels[i]);
    double sum = 0;
    for (auto value = row; value != end; ++value) sum += std::exp(*value);
    for (std::size_t k = 0; k < classes; ++k) {
      const double logit = x[i * classes + k];
      const double q = (k == label ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
      want.loss_sum -= q * (logit - std::log(sum));
      want.gradients[i * classes + k] =
          (std::exp(logit) / sum - q) * scale / static_cast<double>(labels.size());
    }
    want.correct += std::max_element(row, end) - row == labels[i] ? 1 : 0;
  }
  return want;
}

void check_loss(std::int64_t classes, float smoothing, std::int64_t images) {
  const std::int64_t rows = 300;
  auto logits = random_values<float>(rows * classes, 5, 0, 3);
  for (float& logit : logits) logit = std::round(logit);  // so that many values are equal
  core::Random random(6, core::RandomStream::test);
  std::vector<std::int32_t> stored(500), source(size(images)), labels;
  for (auto& label : stored)
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(classes)));
  for (auto& from : source) {
    from = static_cast<std::int32_t>(random.below(500));
    labels.push_back(stored[size(from)]);
  }
  const float loss_scale = 1024;
  const float smoothed = smoothing;
  const WantedLoss want =
      wanted_loss(as_double(logits), labels, size(rows), static_cast<double>(smoothed), 1024);
  std::vector<double> losses(size(rows), std::nan(""));
  std::vector<std::int32_t> hits(size(rows), 1000);
  auto gradients = poisoned<float>(rows * classes);
  SoftmaxCrossEntropy kernel{logits.data(), stored.data(), source.data(),    &loss_scale,
                             losses.data(), hits.data(),   gradients.data(), rows,
                             images,        classes,       smoothing};
  run_on_host(kernel);
  expect_close(gradients, want.gradients, 0.1);
  DeviceResult result{std::nan(""), -1};
  run_on_host(SumResults{losses.data(), hits.data(), &result, rows});
  EXPECT_NEAR(result.loss_sum, want.loss_sum, 1e-12 * std::abs(want.loss_sum));
  EXPECT_EQ(result.correct, want.correct);

  // Labels in the order of the images, no loss scale and, as in inference, no gradients.
  std::fill(losses.begin(), losses.end(), std::nan(""));
  kernel.labels = labels.data();
  kernel.source = nullptr;
  kernel.loss_scale = nullptr;
  kernel.gradients = nullptr;
  run_on_host(kernel);
  run_on_host(SumResults{losses.data(), hits.data(), &result, rows});
  EXPECT_NEAR(result.loss_sum, want.loss_sum, 1e-12 * std::abs(want.loss_sum));
  kernel.gradients = gradients.data();
  run_on_host(kernel);
  std::vector<double> unscaled = want.gradients;
  for (double& gradient : unscaled) gradient /= 1024;
  expect_close(gradients, unscaled, 1e-4);
}

TEST(CudaLoss, AgreesWithTheFormula) {
  for (const std::int64_t classes : {2, 10, 100}) {
    for (const float smoothing : {0.0f, 0.1f}) {
      for (const std::int64_t images : {300, 1, 257}) check_loss(classes, smoothing, images);
    }
  }
}

TEST(CudaLoss, LargeLogitsHaveAFiniteLossAndNanHasNan) {
  std::vector<float> logits = {1000, -1000, std::nanf(""), 0};
  const std::vector<std::int32_t> labels = {0, 1};
  std::vector<double> losses(2, -1);
  std::vector<std::int32_t> hits(2);
  auto gradients = poisoned<float>(4);
  run_on_host(SoftmaxCrossEntropy{logits.data(), labels.data(), nullptr, nullptr, losses.data(),
                                  hits.data(), gradients.data(), 2, 2, 2, 0});
  EXPECT_EQ(losses[0], 0);
  EXPECT_TRUE(std::isnan(losses[1]));
  EXPECT_EQ(gradients[0], 0);
  EXPECT_TRUE(std::isnan(gradients[2]));
}

}  // namespace
}  // namespace lockstep::backend::cuda::kernels::test
