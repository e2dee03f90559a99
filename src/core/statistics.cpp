#include "lockstep/core/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace lockstep::core {

namespace {

constexpr double outside = 0.05;  ///< maximum probability that the interval misses the median
constexpr std::size_t least_values = 6;  ///< smallest sample that has a 95 % interval

/// Returns P(Binomial(n, 1/2) = k). Computed with logarithms, because 2^-n underflows for thousands
/// of values.
double binomial_probability(double n, double k) {
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) -
                  n * std::numbers::ln2);
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<Interval> median_interval(std::vector<double> values) {
  const std::size_t count = values.size();
  if (count < least_values) return std::nullopt;
  std::size_t k = 0;
  double tail = 0;  // P(Binomial <= k - 1)
  while (true) {
    tail += binomial_probability(static_cast<double>(count), static_cast<double>(k));
    if (2 * tail > outside) break;
    ++k;
  }
  if (k == 0) return std::nullopt;
  std::ranges::sort(values);
  return Interval{values[k - 1], values[count - k]};
}

}  // namespace lockstep::core
