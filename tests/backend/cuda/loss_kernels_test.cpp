// Tests the arithmetic of the CUDA kernels of the linear layer and the loss on the host, against
// formulas in float64.

#include "backend/cuda/kernels/linear.hpp"
#include "backend/cuda/kernels/loss.hpp"
#include "kernels.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

/// Compares the kernels with plain sums; the gradients of the parameters for several numbers of
/// slabs.
void check_linear(std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  const auto x = random_values<float>(rows * inputs, 1);
  const auto w = random_values<float>(outputs * inputs, 2);
  const auto bias = random_values<float>(outputs, 3);
  const auto dy = random_values<float>(rows * outputs, 4);
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size()), dbias(bias.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      const double gradient = static_cast<double>(dy[size(r * outputs + o)]);
      double& sum = y[size(r * outputs + o)];
      sum = static_cast<double>(bias[size(o)]);
      dbias[size(o)] += gradient;
      for (std::int64_t i = 0; i < inputs; ++i) {
        const auto value = static_cast<double>(x[size(r * inputs + i)]);
        const auto weight = static_cast<double>(w[size(o * inputs + i)]);
        sum += value * weight;
        dx[size(r * inputs + i)] += gradient * weight;
        dw[size(o * inputs + i)] += gradient * value;
      }
    }
  }
  auto got = poisoned<float>(rows * outputs);
  run_on_host(LinearForward{x.data(), w.data(), bias.data(), got.data(), rows, inputs, outputs});
  expect_close(got, y);
  got = poisoned<float>(rows * outputs);
  run_on_host(LinearForward{x.data(), w.data(), nullptr, got.data(), rows, inputs, outputs});
  for (std::size_t i = 0; i < y.size(); ++i) y[i] -= static_cast<double>(bias[i % size(outputs)]);
  expect_close(got, y);
  got = poisoned<float>(rows * inputs);
  run_on_host(LinearInputGradient{dy.data(), w.data(), got.data(), rows, inputs, outputs});
  expect_close(got, dx);
  for (const std::int64_t slabs : {std::int64_t{1}, std::int64_t{5}, rows}) {
    SCOPED_TRACE(slabs);
    auto slab_dw = poisoned<float>(slabs * outputs * inputs);
    auto slab_dbias = poisoned<float>(slabs * outputs);
    run_on_host(LinearGradientSlabs{dy.data(), x.data(), slab_dw.data(), slab_dbias.data(), rows,
                                    inputs, outputs, slabs});
    if (slabs == 1) {
      expect_close(slab_dw, dw);
      expect_close(slab_dbias, dbias);
    }
    auto got_dw = poisoned<float>(outputs * inputs);
    auto got_dbias = poisoned<float>(outputs);
    run_on_host(LinearGradientTotals{slab_dw.data(), slab_dbias.data(), got_dw.data(),
                                     got_dbias.data(), inputs, outputs, slabs});
    expect_close(got_dw, dw);
    expect_close(got_dbias, dbias);
  }
}

TEST(CudaLinear, AgreesWithPlainSums) {
  check_linear(13, 37, 11);
  check_linear(13, 40, 11);  // groups of four inputs
  check_linear(100, 8, 1);
}

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
