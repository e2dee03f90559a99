// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::core {
namespace {

TEST(Statistics, MedianOfAnEvenCountIsTheMeanOfTheMiddleValues) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 10, 2}), 3);
  EXPECT_EQ(median({7}), 7);
  EXPECT_TRUE(std::isnan(median({})));
}

}  // namespace
}  // namespace lockstep::core
