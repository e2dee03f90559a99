#include "lockstep/core/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace lockstep::core {
namespace {

/// Returns n, n - 1, ..., 1.
std::vector<double> first_integers(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.rbegin(), values.rend(), 1.0);
  return values;
}

TEST(Statistics, MedianOfAnEvenCountIsTheMeanOfTheMiddleValues) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 10, 2}), 3);
  EXPECT_EQ(median({7}), 7);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Statistics, AutocorrelationTimeOfShortSeries) {
  EXPECT_EQ(autocorrelation_time({}), 1);
  EXPECT_EQ(autocorrelation_time({5}), 1);
  EXPECT_EQ(autocorrelation_time({7, 7, 7}), 1);
  // The signs are -, +, -, +: the products at lag 1 are negative, so no correlation is counted.
  EXPECT_EQ(autocorrelation_time({1, 4, 2, 3}), 1);
  // The signs are -, -, -, +, +, +, with the products 6, 3, 0, -3: 2 (6 + 3) / 6 - 1.
  EXPECT_DOUBLE_EQ(autocorrelation_time(first_integers(6)), 2);
}

/// Returns 10 values in an order without positive autocorrelation, each `repeats` times in turn.
std::vector<double> series(int repeats) {
  std::vector<double> values;
  for (const double value : {5, 6, 1, 10, 2, 9, 3, 8, 4, 7})
    values.insert(values.end(), repeats, value);
  return values;
}

// The expected ranks are those in the table of Le Boudec (appendix A) for the 95 % confidence
// interval of a median. The values alternate between the lower and the upper half, so that they are
// not correlated.
TEST(Statistics, IntervalWithoutCorrelationHasTheTabulatedRanks) {
  struct Case {
    int count, low, high;
  };
  for (const auto& [count, low, high] :
       {Case{6, 1, 6}, Case{8, 1, 8}, Case{20, 6, 15}, Case{30, 10, 21}, Case{70, 27, 44}}) {
    std::vector<double> values;
    for (int i = 1; i <= count / 2; ++i) {
      values.push_back(i);
      values.push_back(count / 2 + i);
    }
    const auto interval = series_interval(values);
    ASSERT_TRUE(interval) << count;
    EXPECT_EQ(interval->low, low) << count;
    EXPECT_EQ(interval->high, high) << count;
  }
}

TEST(Statistics, IntervalOfASeriesCountsItsIndependentValues) {
  // 100 values in 20 repeats of 5 are worth about 20 values.
  const double time = autocorrelation_time(series(5));
  EXPECT_GE(time, 2);
  EXPECT_LE(time, 6);
  EXPECT_TRUE(series_interval(series(5)));
}

TEST(Statistics, FewIndependentValuesHaveNoInterval) {
  for (int count = 0; count < 6; ++count) EXPECT_FALSE(series_interval(first_integers(count)));
  EXPECT_FALSE(series_interval(first_integers(100)));  // a trend
}

}  // namespace
}  // namespace lockstep::core
