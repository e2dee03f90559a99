// SPDX-License-Identifier: BSD-3-Clause
// Memory traffic of the forward pass of batch norm.

#include "backend/cuda/kernels/batch_norm.hpp"
#include "cases.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

constexpr std::int64_t rows = 256, channels = 64;

/// The tensors of (channels) that the kernels of the forward pass read and write.
struct Values {
  Tensor<float> totals{2 * channels + 1};
  Tensor<float> gamma{channels}, beta{channels}, mean{channels}, deviation{channels};
  Tensor<float> scale{channels}, offset{channels};
  Tensor<float> running_mean{channels}, running_variance{channels};

  BatchNormCoefficients coefficients() const {
    return {gamma.data(), beta.data(), mean.data(), deviation.data(), scale.data(), offset.data()};
  }
  BatchNormOutcome outcome() const {
    return {coefficients(), running_mean.data(), running_variance.data(), 1e-5f, 0.1f};
  }
  /// What BatchNormCoefficients::set accesses.
  std::vector<Access> coefficient_accesses() const {
    return {reads("gamma", gamma),  reads("beta", beta),
            writes("mean", mean),   writes("inverse_deviation", deviation),
            writes("scale", scale), writes("offset", offset)};
  }
  /// What BatchNormOutcome::set accesses.
  std::vector<Access> outcome_accesses(std::vector<Access> first) const {
    for (Access& access : coefficient_accesses()) first.push_back(std::move(access));
    first.push_back(updates("running_mean", running_mean));
    first.push_back(updates("running_variance", running_variance));
    return first;
  }
};

/// Marks the accesses as those of single threads, which use 4 bytes of a sector.
std::vector<Access> by_single_threads(std::vector<Access> accesses) {
  for (Access& access : accesses) access.sector_ratio = 8;
  return accesses;
}

template <class T>
std::vector<Traffic> forward() {
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t slabs = slabs_with_one_row_per_thread<T>(rows, channels);
  const Values values;
  const Tensor<T> x(rows * channels), residual(rows * channels), y(rows * channels);
  const Tensor<float> partial(batch_norm_partial_size(slabs, channels));
  const BatchNormShift<T> shift{x.data(), values.running_mean.data()};
  const BatchNormTotals<T> totals{partial.data(), shift,    values.totals.data(),
                                  rows,           channels, slabs};
  const BatchNormStatistics<T> statistics{values.totals.data(), shift, values.outcome(), channels};
  std::vector<Access> of_totals =
      values.outcome_accesses({reads("totals", values.totals, channels * 3 * 4, {})});
  of_totals[7].read *= 2;  // the running mean is also the shift
  of_totals[7].note = "twice";
  std::vector<Access> both =
      values.outcome_accesses({reads("partial", partial, partial.bytes(), "uncoalesced"),
                               updates("totals", values.totals), table("x", x, channels * size)});
  both[1].read -= 4;  // the number of rows is not read
  both[9].read *= 3;  // the running mean is also the shift, for the totals and for the mean
  both[9].note = "three times";
  return {
      count_traffic(
          typed<T>("BatchNormSums"),
          BatchNormSums<T>{x.data(), partial.data(), rows, channels, slabs},
          {reads("x", x, 2 * rows * channels * size, "its first row once per thread of a channel"),
           writes("partial", partial)}),
      count_traffic(
          typed<T>("BatchNormTotals"), totals,
          by_single_threads({reads("partial", partial, partial.bytes(), "uncoalesced"),
                             writes("totals", values.totals), table("x", x, channels * size),
                             table("shift.common", values.running_mean, channels * 4)})),
      count_traffic(typed<T>("BatchNormStatistics"), statistics, of_totals),
      count_traffic(typed<T>("BatchNormTotalsAndStatistics"),
                    BatchNormTotalsAndStatistics<T>{totals, statistics}, by_single_threads(both)),
      count_traffic(typed<T>("BatchNormApply"),
                    BatchNormApply<T>{x.data(), residual.data(), y.data(), values.scale.data(),
                                      values.offset.data(), rows, channels},
                    {reads("x", x), reads("residual", residual), writes("y", y),
                     table("scale", values.scale, rows * channels * 4),
                     table("offset", values.offset, rows * channels * 4)}),
      count_traffic(
          typed<T>("BatchNormApply"),
          BatchNormApply<T>{x.data(), nullptr, y.data(), values.scale.data(), values.offset.data(),
                            rows, channels},
          {reads("x", x), writes("y", y), table("scale", values.scale, rows * channels * 4),
           table("offset", values.offset, rows * channels * 4)},
          "without residual"),
  };
}

std::vector<Traffic> without_type() {
  const Values values;
  const Tensor<float> sums(channels), squares(channels);
  std::vector<Access> inference = values.coefficient_accesses();
  inference.push_back(reads("running_mean", values.running_mean));
  inference.push_back(reads("running_variance", values.running_variance));
  return {
      count_traffic(
          "BatchNormStatisticsOfSums",
          BatchNormStatisticsOfSums{sums.data(), squares.data(), values.outcome(), rows, channels},
          values.outcome_accesses({reads("sums", sums), reads("squares", squares)})),
      count_traffic(
          "BatchNormInferenceCoefficients",
          BatchNormInferenceCoefficients{values.running_mean.data(), values.running_variance.data(),
                                         values.coefficients(), channels, 1e-5f},
          inference),
  };
}

}  // namespace

std::vector<Traffic> batch_norm_cases() {
  std::vector<Traffic> all = without_type();
  append(all, forward<float>(), forward<core::BFloat16>(), forward<Float16>());
  return all;
}

}  // namespace lockstep::backend::cuda::kernels::test
