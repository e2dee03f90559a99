#include "lockstep/core/statistics.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <numeric>

namespace lockstep::core {

namespace {

constexpr double least_values = 6;  ///< independent values whose range covers the median with 95 %

/// Returns the largest k for which (x_k, x_(count+1-k)) covers the median of independent values
/// with 95 %.
double binomial_rank(double count) {
  double rank = 0;
  double tail = 0;  // P(Binomial(count, 1/2) <= rank - 1)
  while (true) {
    // Computed with logarithms, because 2^-count underflows for thousands of values.
    tail += std::exp(std::lgamma(count + 1) - std::lgamma(rank + 1) -
                     std::lgamma(count - rank + 1) - count * std::numbers::ln2);
    if (2 * tail > 0.05) return rank;
    ++rank;
  }
}

/// Returns t with P(|T| <= t) = 95 % for Student's t with `dof` degrees of freedom.
double student_quantile(double dof) {
  return boost::math::quantile(boost::math::students_t(dof), 0.975);
}

double sign(double value) { return value > 0 ? 1 : (value < 0 ? -1 : 0); }

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double autocorrelation_time(const std::vector<double>& values) {
  const std::size_t count = values.size();
  const double middle = median(values);
  std::vector<double> signs(count);
  std::ranges::transform(values, signs.begin(), [&](double value) { return sign(value - middle); });
  const auto product = [&](std::size_t lag) {
    return std::inner_product(signs.begin() + static_cast<std::ptrdiff_t>(lag), signs.end(),
                              signs.begin(), 0.0);
  };
  if (count < 2 || product(0) == 0) return 1;
  double sum = 0;
  double pairs = 0;
  for (std::size_t lag = 0; lag + 1 < count; lag += 2, ++pairs) {
    const double pair = product(lag) + product(lag + 1);
    if (pair <= 0) break;
    sum += pair;
  }
  const double time = 2 * sum / product(0) - 1;
  // Each estimated autocorrelation is too small, because the median is that of the same values.
  return time > 1 ? time / std::max(0.25, 1 - 4 * (pairs - 1) / static_cast<double>(count)) : 1;
}

std::optional<Interval> series_interval(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  if (count < least_values) return std::nullopt;
  const double time = autocorrelation_time(values);
  const double independent = count / time;
  if (independent < least_values) return std::nullopt;
  const auto correlated_rank = [&] {
    const double half = student_quantile(std::floor(independent) - 1) / 2 * std::sqrt(count * time);
    return std::max(1.0, std::floor((count + 1) / 2 - half));
  };
  const double lowest = time == 1 ? binomial_rank(count) : correlated_rank();
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  return Interval{sorted[static_cast<std::size_t>(lowest) - 1],
                  sorted[sorted.size() - static_cast<std::size_t>(lowest)]};
}

}  // namespace lockstep::core
