#pragma once

#include <optional>
#include <vector>

namespace lockstep::core {

/// Returns the median of `values`: the mean of the two middle values if the number of values
/// is even, NaN if `values` is empty.
double median(std::vector<double> values);

/// Closed interval [low, high].
struct Interval {
  double low = 0;
  double high = 0;
};

/// Returns the rank-based 95 % confidence interval of the median: for n sorted values it is
/// (x_k, x_(n+1-k)) with the largest k for which 1 - 2 P(Binomial(n, 1/2) <= k-1) >= 0.95. It
/// assumes no distribution. Returns nullopt for fewer than 6 values, because no pair reaches 95 %.
/// Source: J.-Y. Le Boudec, Performance Evaluation of Computer and Communication Systems, 2010,
/// chapter 2.
std::optional<Interval> median_interval(std::vector<double> values);

}  // namespace lockstep::core
