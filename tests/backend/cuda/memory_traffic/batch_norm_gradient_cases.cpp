// SPDX-License-Identifier: BSD-3-Clause
// Memory traffic of the backward pass of batch norm.

#include "backend/cuda/kernels/batch_norm_gradient.hpp"
#include "cases.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

constexpr std::int64_t rows = 256, channels = 64;

template <class T>
std::vector<Traffic> maps() {
  const std::int64_t slabs = slabs_with_one_row_per_thread<T>(rows, channels);
  const Tensor<T> x(rows * channels), dy(rows * channels), dy2(rows * channels), y(rows * channels),
      masked(rows * channels), dx(rows * channels);
  const Tensor<float> scale(channels), offset(channels), mean(channels), deviation(channels);
  const Tensor<float> a(channels), b(channels), c(channels);
  const Tensor<float> partial(batch_norm_partial_size(slabs, channels));
  const GradientMaps<T> full{x.data(),         dy.data(),    dy2.data(),   y.data(),
                             ReluMask::output, scale.data(), offset.data()};
  const GradientMaps<T> normalised{
      x.data(), dy.data(), nullptr, nullptr, ReluMask::normalised, scale.data(), offset.data()};
  const std::int64_t per_row = rows * channels * 4;
  return {
      count_traffic(typed<T>("BatchNormGradientSums"),
                    BatchNormGradientSums<T>{full, masked.data(), mean.data(), deviation.data(),
                                             partial.data(), rows, channels, slabs},
                    {reads("x", x), reads("dy", dy), reads("dy2", dy2), reads("y", y),
                     writes("masked", masked), writes("partial", partial),
                     table("mean", mean, per_row), table("inverse_deviation", deviation, per_row)}),
      count_traffic(typed<T>("BatchNormGradientSums"),
                    BatchNormGradientSums<T>{normalised, nullptr, mean.data(), deviation.data(),
                                             partial.data(), rows, channels, slabs},
                    {reads("x", x), reads("dy", dy), writes("partial", partial),
                     table("scale", scale, per_row), table("offset", offset, per_row),
                     table("mean", mean, per_row), table("inverse_deviation", deviation, per_row)},
                    "ReluMask::normalised"),
      count_traffic(
          typed<T>("BatchNormInputGradient"),
          BatchNormInputGradient<T>{full, a.data(), b.data(), c.data(), dx.data(), rows, channels},
          {reads("x", x), reads("dy", dy), reads("dy2", dy2), reads("y", y), writes("dx", dx),
           table("a", a, per_row), table("b", b, per_row), table("c", c, per_row)}),
      count_traffic(typed<T>("BatchNormInputGradient"),
                    BatchNormInputGradient<T>{normalised, a.data(), b.data(), c.data(), dx.data(),
                                              rows, channels},
                    {reads("x", x), reads("dy", dy), writes("dx", dx), table("a", a, per_row),
                     table("b", b, per_row), table("c", c, per_row), table("scale", scale, per_row),
                     table("offset", offset, per_row)},
                    "ReluMask::normalised"),
  };
}

}  // namespace

std::vector<Traffic> batch_norm_gradient_cases() {
  std::vector<Traffic> all;
  append(all, maps<float>(), maps<core::BFloat16>(), maps<Float16>());

  constexpr std::int64_t slabs = 16;
  const Tensor<float> partial(batch_norm_partial_size(slabs, channels));
  const Tensor<float> totals(2 * channels);
  const Tensor<float> beta_gradient(channels), gamma_gradient(channels);
  const Tensor<float> all_rows(1), gamma(channels), mean(channels), deviation(channels);
  const Tensor<float> a(channels), b(channels), c(channels);
  const BatchNormGradientTotals total{partial.data(),        totals.data(), beta_gradient.data(),
                                      gamma_gradient.data(), channels,      slabs};
  const BatchNormGradientCoefficients coefficients{
      totals.data(),    all_rows.data(), rows,     gamma.data(), mean.data(),
      deviation.data(), a.data(),        b.data(), c.data(),     channels};
  const std::vector<Access> of_coefficients{table("all_rows", all_rows, channels * 4),
                                            reads("gamma", gamma),
                                            reads("mean", mean),
                                            reads("inverse_deviation", deviation),
                                            writes("a", a),
                                            writes("b", b),
                                            writes("c", c)};
  const auto with = [&](std::vector<Access> first, double ratio) {
    first.insert(first.end(), of_coefficients.begin(), of_coefficients.end());
    for (Access& access : first) access.sector_ratio = ratio;
    return first;
  };
  all.push_back(count_traffic(
      "BatchNormGradientTotals", total,
      {strided(reads("partial", partial, partial.bytes(), "uncoalesced"), 8),
       strided(writes("totals", totals), 8), strided(writes("beta_gradient", beta_gradient), 8),
       strided(writes("gamma_gradient", gamma_gradient), 8)}));
  all.push_back(count_traffic("BatchNormGradientCoefficients", coefficients,
                              with({reads("totals", totals)}, 1)));
  all.push_back(count_traffic(
      "BatchNormGradientTotalsAndCoefficients",
      BatchNormGradientTotalsAndCoefficients{total, coefficients},
      with({reads("partial", partial, partial.bytes(), "uncoalesced"), updates("totals", totals),
            writes("beta_gradient", beta_gradient), writes("gamma_gradient", gamma_gradient)},
           8)));
  return all;
}

}  // namespace lockstep::backend::cuda::kernels::test
