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

/// Returns the integrated autocorrelation time of a series, at least 1: its median varies as much
/// as that of size / time independent values. It is computed from the signs of the deviations from
/// the median; the sum of autocorrelations ends before the first pair that is not positive. Source:
/// C. J. Geyer, Practical Markov Chain Monte Carlo, Statistical Science 7 (1992).
double autocorrelation_time(const std::vector<double>& values);

/// Returns a 95 % confidence interval of the median of a series in the order of time, whose values
/// may be correlated; nullopt if it is worth fewer than 6 independent values. Its ends are order
/// statistics: without correlation (x_k, x_(n+1-k)) with the largest k for which
/// 1 - 2 P(Binomial(n, 1/2) <= k-1) >= 0.95 (J.-Y. Le Boudec, Performance Evaluation of Computer
/// and Communication Systems, 2010, chapter 2). docs/analysis.md ("Intervals") defines it, and
/// `series_interval` of lockstep_report computes the same.
std::optional<Interval> series_interval(const std::vector<double>& values);

}  // namespace lockstep::core
