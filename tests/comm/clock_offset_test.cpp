// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/clock_offset.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

TEST(ClockOffset, IsThatOfTheShortestRoundTrip) {
  const std::array<ClockExchange, 3> exchanges{
      {{.sent = 0, .remote = 105, .received = 12}, {20, 123, 22}, {30, 140, 34}}};
  const ClockOffset offset = estimate_clock_offset(exchanges);
  EXPECT_DOUBLE_EQ(offset.seconds, 123 - 21);
  EXPECT_DOUBLE_EQ(offset.error, 1);
}

TEST(ClockOffset, ErrorBoundHoldsForDelaysThatDifferBetweenTheDirections) {
  constexpr double truth = -7;
  for (const double request : {0.0, 0.25, 0.875}) {
    const double reply = 1 - request;
    const ClockExchange exchange{.sent = 100, .remote = 100 + request + truth, .received = 101};
    const ClockOffset offset = estimate_clock_offset(std::span(&exchange, 1));
    EXPECT_DOUBLE_EQ(offset.seconds - truth, (request - reply) / 2);
    EXPECT_LE(std::abs(offset.seconds - truth), offset.error);
  }
}

TEST(ClockOffset, NeedsAnExchange) { EXPECT_THROW(estimate_clock_offset({}), core::Error); }

TEST(ClockOffset, MeasuresAShiftedClock) {
  constexpr double shift = 3.25;
  const auto world = make_world();
  if (world->size() < 2) GTEST_SKIP() << "needs two ranks";
  if (world->rank() > 1) return;
  const double own = world->rank() == 1 ? shift : 0;
  const ClockOffset offset =
      measure_clock_offset(*world, 1, [&] { return core::host_seconds() + own; });
  if (world->rank() != 0) return;
  EXPECT_NEAR(offset.seconds, shift, offset.error);
  EXPECT_GT(offset.error, 0);
  EXPECT_LT(offset.error, 0.5);
}

// On one host all offsets are 0. On emulated hosts (cluster_test.sh) the first rank of each other
// host exchanges messages.
TEST(ClockOffset, RanksOfAHostShareItsClock) {
  const auto world = make_world();
  const double own = 1000.0 * world->host();
  const auto offsets = measure_clock_offsets(*world, [&] { return core::host_seconds() + own; });
  const auto shifts = gather(*world, own);
  if (world->rank() != 0) {
    EXPECT_TRUE(offsets.empty());
    return;
  }
  ASSERT_EQ(offsets.size(), shifts.size());
  for (std::size_t rank = 0; rank < offsets.size(); ++rank) {
    EXPECT_NEAR(offsets[rank].seconds, shifts[rank], offsets[rank].error) << rank;
    EXPECT_EQ(offsets[rank].error == 0, shifts[rank] == 0) << rank;
    EXPECT_LT(offsets[rank].error, 0.5) << rank;
  }
}

}  // namespace
}  // namespace lockstep::comm
