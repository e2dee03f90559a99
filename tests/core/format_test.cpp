// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/format.hpp"

#include <gmock/gmock.h>

#include <cmath>

namespace lockstep::core {
namespace {

TEST(Format, BytesInDecimalUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1'000), "1.00 kB");
  EXPECT_EQ(format_bytes(44'700'000), "44.7 MB");
  EXPECT_EQ(format_bytes(447e6), "447 MB");
  EXPECT_EQ(format_bytes(999'600), "1.00 MB") << "never 1000 kB";
  EXPECT_EQ(format_bytes(141e9), "141 GB");
}

TEST(Format, Counts) {
  EXPECT_EQ(format_count(7), "7");
  EXPECT_EQ(format_count(11'173'962), "11.2 M");
  EXPECT_EQ(format_count(1.11e9), "1.11 G");
}

TEST(Format, Seconds) {
  EXPECT_EQ(format_seconds(42e-9), "42 ns");
  EXPECT_EQ(format_seconds(850e-6), "850 us");
  EXPECT_EQ(format_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(format_seconds(4.56), "4.56 s");
  EXPECT_EQ(format_seconds(192), "3 min 12 s");
  EXPECT_EQ(format_seconds(7'500), "2 h 05 min");
  EXPECT_EQ(format_seconds(0), "0 us");
  EXPECT_EQ(format_seconds(std::nan("")), "-");
}

TEST(Format, ZeroHasNoSign) {
  EXPECT_EQ(format_fixed(-0.0, 4), "0.0000");
  EXPECT_EQ(format_fixed(-0.004, 2), "0.00");
  EXPECT_EQ(format_fixed(-0.4, 0), "0");
  EXPECT_EQ(format_fixed(-0.006, 2), "-0.01");
  EXPECT_EQ(format_fixed(-10, 1), "-10.0");
  EXPECT_EQ(format_fixed(2.345678, 4), "2.3457");
}

}  // namespace
}  // namespace lockstep::core
