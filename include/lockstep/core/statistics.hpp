#pragma once

#include <optional>
#include <vector>

namespace lockstep::core {

/// Returns the median; the mean of the two middle values if their number is even, NaN if there are
/// none.
double median(std::vector<double> values);

struct Interval {
  double low = 0;
  double high = 0;
};

/// Returns the rank-based 95 % confidence interval of the median: of n sorted values the pair
/// (x_k, x_(n+1-k)) with the largest k for which 1 - 2 P(Binomial(n, 1/2) <= k-1) >= 0.95. It
/// assumes no distribution. Returns nothing for fewer than 6 values, where no pair reaches 95 %.
/// Source: J.-Y. Le Boudec, Performance Evaluation of Computer and Communication Systems, 2010,
/// chapter 2.
std::optional<Interval> median_interval(std::vector<double> values);

}  // namespace lockstep::core
