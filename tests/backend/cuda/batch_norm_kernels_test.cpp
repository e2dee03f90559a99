// SPDX-License-Identifier: BSD-3-Clause
// Tests the arithmetic of the CUDA kernels of batch norm on the host, against formulas in float64.

#include "backend/cuda/kernels/batch_norm.hpp"
#include "backend/cuda/kernels/batch_norm_gradient.hpp"
#include "kernels.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

constexpr float epsilon = 1e-5f;
constexpr float momentum = 0.1f;

/// Mean and biased variance of each channel, computed in float64.
struct Moments {
  std::vector<double> mean, variance;
};

Moments moments_of(const std::vector<double>& x, std::size_t channels) {
  Moments result{std::vector<double>(channels), std::vector<double>(channels)};
  const double n = static_cast<double>(x.size() / channels);
  for (std::size_t i = 0; i < x.size(); ++i) result.mean[i % channels] += x[i] / n;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = x[i] - result.mean[i % channels];
    result.variance[i % channels] += difference * difference / n;
  }
  return result;
}

/// Parameters, gradients, statistics and coefficients of the batch norm of one replica.
struct Tables {
  explicit Tables(std::int64_t channels)
      : gamma(random_values<float>(channels, 11, 1, 0.3f)),
        beta(random_values<float>(channels, 12)),
        mean(poisoned<float>(channels)),
        inverse(mean),
        scale(mean),
        offset(mean),
        a(mean),
        b(mean),
        c(mean),
        beta_gradient(mean),
        gamma_gradient(mean),
        running_mean(random_values<float>(channels, 13)),
        running_variance(size(channels), 2),
        totals(poisoned<float>(2 * channels + 1)),
        gradient_totals(poisoned<float>(2 * channels)) {}

  BatchNormCoefficients coefficients() {
    return {gamma.data(), beta.data(), mean.data(), inverse.data(), scale.data(), offset.data()};
  }

  BatchNormOutcome outcome() {
    return {coefficients(), running_mean.data(), running_variance.data(), epsilon, momentum};
  }

  std::vector<float> gamma, beta, mean, inverse, scale, offset, a, b, c;
  std::vector<float> beta_gradient, gamma_gradient, running_mean, running_variance;
  std::vector<float> totals, gradient_totals;
};

/// Runs kernel 1 of the forward pass (see batch_norm.hpp), and returns kernel 2, which writes to
/// `tables.totals`.
template <class T>
BatchNormTotals<T> totals_kernel(const std::vector<T>& x, Tables& tables,
                                 std::vector<float>& partial, std::int64_t slabs,
                                 const float* common) {
  const auto channels = static_cast<std::int64_t>(tables.gamma.size());
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / channels;
  partial = poisoned<float>(batch_norm_partial_size(slabs, channels));
  run_on_host(BatchNormSums<T>{x.data(), partial.data(), rows, channels, slabs});
  return {partial.data(), {x.data(), common}, tables.totals.data(), rows, channels, slabs};
}

template <class T>
BatchNormStatistics<T> statistics_kernel(const std::vector<T>& x, Tables& tables,
                                         const float* common) {
  return {tables.totals.data(),
          {x.data(), common},
          tables.outcome(),
          static_cast<std::int64_t>(tables.gamma.size())};
}

template <class T>
void compute_statistics(const std::vector<T>& x, Tables& tables, std::int64_t slabs) {
  std::vector<float> partial;
  run_on_host(totals_kernel(x, tables, partial, slabs, nullptr));
  run_on_host(statistics_kernel(x, tables, nullptr));
}

/// Expects the statistics `want` of `n` values per channel. `mean_size`: magnitude of the mean,
/// which scales the tolerances of the values that depend on it.
void expect_statistics(const Tables& tables, const Moments& want, double n, double mean_size) {
  const Tables before(static_cast<std::int64_t>(tables.gamma.size()));
  std::vector<double> inverse, running_mean, running_variance, scale, offset;
  for (std::size_t c = 0; c < want.mean.size(); ++c) {
    inverse.push_back(1 / std::sqrt(want.variance[c] + static_cast<double>(epsilon)));
    running_mean.push_back(0.9 * static_cast<double>(before.running_mean[c]) + 0.1 * want.mean[c]);
    running_variance.push_back(0.9 * 2 + 0.1 * want.variance[c] * n / (n - 1));
    scale.push_back(static_cast<double>(tables.gamma[c]) * inverse[c]);
    offset.push_back(static_cast<double>(tables.beta[c]) - want.mean[c] * scale[c]);
  }
  expect_close(tables.mean, want.mean, mean_size);
  expect_close(tables.inverse, inverse);
  expect_close(tables.running_mean, running_mean, mean_size);
  expect_close(tables.running_variance, running_variance);
  expect_close(tables.scale, scale);
  expect_close(tables.offset, offset, mean_size);
}

template <class T>
class CudaBatchNorm : public ::testing::Test {};
TYPED_TEST_SUITE(CudaBatchNorm, ActivationTypes, ActivationTypeNames);

TYPED_TEST(CudaBatchNorm, StatisticsEqualThoseOfTheBatch) {
  using T = TypeParam;
  for (const std::int64_t channels : {5, 24}) {
    for (const std::int64_t slabs : {1, 10, 203}) {
      Tables tables(channels);
      const auto x = random_values<T>(203 * channels, 14, 0.5f, 1.5f);
      compute_statistics(x, tables, slabs);
      expect_statistics(tables, moments_of(as_double(x), size(channels)), 203, 1);
      EXPECT_EQ(tables.totals[size(2 * channels)], 203);
    }
  }
}

TYPED_TEST(CudaBatchNorm, StatisticsOfGivenSumsEqualThoseOfTheBatch) {
  using T = TypeParam;
  for (const std::int64_t channels : {5, 24}) {
    const std::int64_t rows = 203;
    Tables tables(channels);
    const auto x = as_double(random_values<T>(rows * channels, 14, 0.5f, 1.5f));
    // The sums in float32, as a cuDNN graph would compute them.
    std::vector<double> sums(size(channels)), squares(size(channels));
    for (std::size_t i = 0; i < x.size(); ++i) {
      sums[i % sums.size()] += x[i];
      squares[i % squares.size()] += x[i] * x[i];
    }
    const std::vector<float> sum(sums.begin(), sums.end()), square(squares.begin(), squares.end());
    run_on_host(
        BatchNormStatisticsOfSums{sum.data(), square.data(), tables.outcome(), rows, channels});
    expect_statistics(tables, moments_of(x, size(channels)), rows, 1);
  }
}

TEST(CudaBatchNormStatistics, SurviveALargeMean) {
  Tables tables(6);
  const auto x = random_values<float>(203 * 6, 14, 1000, 1);
  compute_statistics(x, tables, 9);
  expect_statistics(tables, moments_of(as_double(x), 6), 203, 1000);
}

TYPED_TEST(CudaBatchNorm, OneKernelOrTwoGiveTheSameBits) {
  using T = TypeParam;
  for (const std::int64_t channels : {5, 24}) {
    Tables one(channels), two(channels);
    const auto x = random_values<T>(100 * channels, 14);
    std::vector<float> partial;
    compute_statistics(x, two, 6);
    run_on_host(BatchNormTotalsAndStatistics<T>{totals_kernel(x, one, partial, 6, nullptr),
                                                statistics_kernel(x, one, nullptr)});
    EXPECT_EQ(one.mean, two.mean);
    EXPECT_EQ(one.inverse, two.inverse);
    EXPECT_EQ(one.scale, two.scale);
    EXPECT_EQ(one.offset, two.offset);
    EXPECT_EQ(one.running_mean, two.running_mean);
    EXPECT_EQ(one.running_variance, two.running_variance);
    EXPECT_EQ(one.totals, two.totals);
  }
}

TYPED_TEST(CudaBatchNorm, AppliesResidualAndRelu) {
  using T = TypeParam;
  for (const std::int64_t channels : {5, 24}) {
    const std::int64_t rows = 37;
    Tables tables(channels);
    const auto x = random_values<T>(rows * channels, 15, 0.5f);
    const auto residual = random_values<T>(rows * channels, 16);
    run_on_host(BatchNormInferenceCoefficients{tables.running_mean.data(),
                                               tables.running_variance.data(),
                                               tables.coefficients(), channels, epsilon});
    for (const bool adds : {false, true}) {
      for (const Activation activation : {Activation::none, Activation::relu}) {
        std::vector<double> want;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t c = i % size(channels);
          double value = static_cast<double>(widen(x[i]) - tables.running_mean[c]) /
                             std::sqrt(2 + static_cast<double>(epsilon)) *
                             static_cast<double>(tables.gamma[c]) +
                         static_cast<double>(tables.beta[c]);
          if (adds) value += static_cast<double>(widen(residual[i]));
          want.push_back(activation == Activation::relu ? std::max(value, 0.0) : value);
        }
        auto y = poisoned<T>(rows * channels);
        run_on_host(BatchNormApply<T>{x.data(), adds ? residual.data() : nullptr, y.data(),
                                      tables.scale.data(), tables.offset.data(), rows, channels,
                                      activation});
        expect_close(y, want);
      }
    }
  }
}

/// Feature maps of the backward pass of one replica.
template <class T>
struct Maps {
  Maps(std::int64_t rows, std::int64_t channels, std::uint64_t seed)
      : x(random_values<T>(rows * channels, seed, 0.5f, 1.5f)),
        dy(random_values<T>(rows * channels, seed + 1)),
        dy2(random_values<T>(rows * channels, seed + 2)),
        y(poisoned<T>(rows * channels)),
        masked(poisoned<T>(rows * channels)),
        dx(poisoned<T>(rows * channels)) {}

  std::vector<T> x, dy, dy2, y, masked, dx;
};

struct Gradients {
  std::vector<double> g, beta, gamma, dx;
};

/// Returns the gradients, computed in float64 from their definition. `passes`: mask of the ReLU.
template <class T>
Gradients gradients_of(const std::vector<T>& x, const std::vector<double>& dy,
                       const std::vector<bool>& passes, const Tables& tables) {
  const std::size_t channels = tables.gamma.size();
  const std::vector<double> wide = as_double(x);
  const Moments moments = moments_of(wide, channels);
  const double n = static_cast<double>(x.size() / channels);
  Gradients result{{}, std::vector<double>(channels), std::vector<double>(channels), {}};
  const auto xhat = [&](std::size_t i) {
    return (wide[i] - moments.mean[i % channels]) /
           std::sqrt(moments.variance[i % channels] + static_cast<double>(epsilon));
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    result.g.push_back(passes[i] ? dy[i] : 0);
    result.beta[i % channels] += result.g[i];
    result.gamma[i % channels] += result.g[i] * xhat(i);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % channels;
    result.dx.push_back(static_cast<double>(tables.gamma[c]) /
                        std::sqrt(moments.variance[c] + static_cast<double>(epsilon)) *
                        (result.g[i] - result.beta[c] / n - xhat(i) * result.gamma[c] / n));
  }
  return result;
}

template <class T>
void sum_gradients(const GradientMaps<T>& maps, T* masked, Tables& tables, std::int64_t rows,
                   std::vector<float>& partial, std::int64_t slabs) {
  const auto channels = static_cast<std::int64_t>(tables.gamma.size());
  partial = poisoned<float>(batch_norm_partial_size(slabs, channels));
  run_on_host(BatchNormGradientSums<T>{maps, masked, tables.mean.data(), tables.inverse.data(),
                                       partial.data(), rows, channels, slabs});
}

BatchNormGradientTotals gradient_totals(Tables& tables, const std::vector<float>& partial,
                                        std::int64_t slabs) {
  return {partial.data(),
          tables.gradient_totals.data(),
          tables.beta_gradient.data(),
          tables.gamma_gradient.data(),
          static_cast<std::int64_t>(tables.gamma.size()),
          slabs};
}

BatchNormGradientCoefficients gradient_coefficients(Tables& tables) {
  const std::size_t channels = tables.gamma.size();
  return {tables.gradient_totals.data(),
          &tables.totals[2 * channels],
          0,
          tables.gamma.data(),
          tables.mean.data(),
          tables.inverse.data(),
          tables.a.data(),
          tables.b.data(),
          tables.c.data(),
          static_cast<std::int64_t>(channels)};
}

enum class Keeps { nothing, masked };

template <class T>
void check_backward(std::int64_t channels, ReluMask mask, int gradients, Keeps keeps) {
  const std::int64_t rows = 203, slabs = 9;
  Tables tables(channels);
  Maps<T> maps(rows, channels, 20);
  compute_statistics(maps.x, tables, slabs);
  const bool has_residual = mask == ReluMask::output;
  const auto residual = random_values<T>(rows * channels, 30);
  run_on_host(BatchNormApply<T>{maps.x.data(), has_residual ? residual.data() : nullptr,
                                maps.y.data(), tables.scale.data(), tables.offset.data(), rows,
                                channels,
                                mask == ReluMask::none ? Activation::none : Activation::relu});
  std::vector<bool> passes;
  std::vector<double> dy = as_double(maps.dy);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    passes.push_back(mask == ReluMask::none || widen(maps.y[i]) > 0);
    if (gradients > 1) dy[i] += static_cast<double>(widen(maps.dy2[i]));
  }
  const Gradients want = gradients_of(maps.x, dy, passes, tables);

  const auto poison = poisoned<T>(rows * channels);
  GradientMaps<T> in{.x = maps.x.data(),
                     .dy = maps.dy.data(),
                     .dy2 = gradients > 1 ? maps.dy2.data() : nullptr,
                     .y = mask == ReluMask::output ? maps.y.data() : poison.data(),
                     .mask = mask,
                     .scale = tables.scale.data(),
                     .offset = tables.offset.data()};
  T* const masked = keeps == Keeps::masked ? maps.masked.data() : nullptr;
  std::vector<float> partial;
  sum_gradients(in, masked, tables, rows, partial, slabs);
  run_on_host(gradient_totals(tables, partial, slabs));
  run_on_host(gradient_coefficients(tables));
  expect_close(tables.beta_gradient, want.beta, 203);
  expect_close(tables.gamma_gradient, want.gamma, 203);
  // If g is stored, dx is computed from the rounded g times gamma / deviation, which is about 1.
  // This adds one rounding error.
  double magnitude = 1;
  if (keeps == Keeps::masked) {
    expect_close(maps.masked, want.g);
    in = {.x = maps.x.data(),
          .dy = masked,
          .dy2 = nullptr,
          .y = nullptr,
          .mask = ReluMask::none,
          .scale = nullptr,
          .offset = nullptr};
    if (rounding < T >> 1e-5) magnitude += rounding<T> * 8 * 1e5;
  }
  run_on_host(BatchNormInputGradient<T>{in, tables.a.data(), tables.b.data(), tables.c.data(),
                                        maps.dx.data(), rows, channels});
  expect_close(maps.dx, want.dx, magnitude);

  Tables at_once = tables;
  BatchNormGradientCoefficients coefficients = gradient_coefficients(at_once);
  coefficients.all_rows = nullptr;
  coefficients.rows = rows;
  run_on_host(BatchNormGradientTotalsAndCoefficients{gradient_totals(at_once, partial, slabs),
                                                     coefficients});
  EXPECT_EQ(at_once.a, tables.a);
  EXPECT_EQ(at_once.b, tables.b);
  EXPECT_EQ(at_once.c, tables.c);
}

TYPED_TEST(CudaBatchNorm, Backward) {
  for (const std::int64_t channels : {5, 24}) {
    for (const ReluMask mask : {ReluMask::none, ReluMask::output, ReluMask::normalised}) {
      for (const int gradients : {1, 2}) {
        for (const Keeps keeps : {Keeps::nothing, Keeps::masked}) {
          SCOPED_TRACE(testing::Message()
                       << channels << " channels, mask " << static_cast<int>(mask) << ", "
                       << gradients << " gradients, keeps " << static_cast<int>(keeps));
          check_backward<TypeParam>(channels, mask, gradients, keeps);
        }
      }
    }
  }
}

void add_into(std::vector<float>& sum, const std::vector<float>& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

TYPED_TEST(CudaBatchNorm, ReplicasOfUnlikeSizeAreOneBatch) {
  using T = TypeParam;
  const std::int64_t channels = 5, slabs = 3;
  const std::vector<std::int64_t> rows = {40, 63};
  std::vector<Tables> tables(2, Tables(channels));
  std::vector<Maps<T>> maps;
  std::vector<T> all_x;
  std::vector<double> all_dy;
  std::vector<float> partial, sum;
  for (std::size_t r = 0; r < 2; ++r) {
    maps.emplace_back(rows[r], channels, 40 + 10 * r);
    all_x.insert(all_x.end(), maps[r].x.begin(), maps[r].x.end());
    const auto dy = as_double(maps[r].dy);
    all_dy.insert(all_dy.end(), dy.begin(), dy.end());
    run_on_host(totals_kernel(maps[r].x, tables[r], partial, slabs, tables[r].running_mean.data()));
  }
  sum = tables[0].totals;
  add_into(sum, tables[1].totals);
  for (std::size_t r = 0; r < 2; ++r) {
    tables[r].totals = sum;
    run_on_host(statistics_kernel(maps[r].x, tables[r], tables[r].running_mean.data()));
    expect_statistics(tables[r], moments_of(as_double(all_x), 5), 103, 1);
  }
  EXPECT_EQ(tables[0].scale, tables[1].scale);

  const Gradients want =
      gradients_of(all_x, all_dy, std::vector<bool>(all_x.size(), true), tables[0]);
  for (std::size_t r = 0; r < 2; ++r) {
    const GradientMaps<T> in{maps[r].x.data(), maps[r].dy.data(), nullptr, nullptr,
                             ReluMask::none,   nullptr,           nullptr};
    sum_gradients<T>(in, nullptr, tables[r], rows[r], partial, slabs);
    run_on_host(gradient_totals(tables[r], partial, slabs));
  }
  sum = tables[0].gradient_totals;
  add_into(sum, tables[1].gradient_totals);
  add_into(tables[0].beta_gradient, tables[1].beta_gradient);
  expect_close(tables[0].beta_gradient, want.beta, 103);
  std::vector<T> all_dx;
  for (std::size_t r = 0; r < 2; ++r) {
    tables[r].gradient_totals = sum;
    run_on_host(gradient_coefficients(tables[r]));
    const GradientMaps<T> in{maps[r].x.data(), maps[r].dy.data(), nullptr, nullptr,
                             ReluMask::none,   nullptr,           nullptr};
    run_on_host(BatchNormInputGradient<T>{in, tables[r].a.data(), tables[r].b.data(),
                                          tables[r].c.data(), maps[r].dx.data(), rows[r],
                                          channels});
    all_dx.insert(all_dx.end(), maps[r].dx.begin(), maps[r].dx.end());
  }
  expect_close(all_dx, want.dx);
}

}  // namespace
}  // namespace lockstep::backend::cuda::kernels::test
