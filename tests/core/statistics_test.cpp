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

// The expected ranks are those in the table of Le Boudec (appendix A) for the 95 % confidence
// interval of a median.
TEST(Statistics, IntervalHasTheTabulatedRanks) {
  struct Case {
    int count, low, high;
  };
  for (const auto& [count, low, high] : {Case{6, 1, 6}, Case{8, 1, 8}, Case{9, 2, 8},
                                         Case{20, 6, 15}, Case{30, 10, 21}, Case{70, 27, 44}}) {
    const auto interval = median_interval(first_integers(count));
    ASSERT_TRUE(interval) << count;
    EXPECT_EQ(interval->low, low) << count;
    EXPECT_EQ(interval->high, high) << count;
  }
}

TEST(Statistics, FewerThanSixValuesHaveNoInterval) {
  for (int count = 0; count < 6; ++count) EXPECT_FALSE(median_interval(first_integers(count)));
}

TEST(Statistics, IntervalOfManyValuesIsThatOfTheNormalApproximation) {
  const auto interval = median_interval(first_integers(100'000));
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low, 50'000 - 0.98 * std::sqrt(100'000), 2);
  EXPECT_NEAR(interval->high, 50'001 + 0.98 * std::sqrt(100'000), 2);
}

}  // namespace
}  // namespace lockstep::core
