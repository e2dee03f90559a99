// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/data_type.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/core/random.hpp"

namespace lockstep::core {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(BFloat16, RoundsToNearestTiesToEven) {
  // 1 + 2^-7 is the next bfloat16 value after 1.
  const auto rounded = [](float value) { return to_float(to_bfloat16(value)); };
  EXPECT_EQ(rounded(1.0f), 1.0f);
  EXPECT_EQ(rounded(1 + 0x1p-8f), 1.0f) << "a tie goes to the even 1";
  EXPECT_EQ(rounded(1 + 0x1p-8f + 0x1p-20f), 1 + 0x1p-7f);
  EXPECT_EQ(rounded(1 + 0x1p-7f + 0x1p-8f), 1 + 0x1p-6f) << "a tie goes to the even 1 + 2/128";
  EXPECT_EQ(rounded(1 + 0x1p-7f + 0x1p-8f - 0x1p-20f), 1 + 0x1p-7f);
  EXPECT_EQ(rounded(-1 - 0x1p-8f - 0x1p-20f), -1 - 0x1p-7f);
}

TEST(BFloat16, KeepsWhatIsNoNumber) {
  EXPECT_EQ(to_float(to_bfloat16(infinity)), infinity);
  EXPECT_EQ(to_float(to_bfloat16(-infinity)), -infinity);
  EXPECT_EQ(to_float(to_bfloat16(std::numeric_limits<float>::max())), infinity);
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::nanf("")))));
  // A NaN whose payload is only in the lower 16 bits must not become infinity.
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::signbit(to_float(to_bfloat16(-0.0f))));
}

TEST(BFloat16, EveryOneSurvivesTheWayToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 value{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(value))) continue;
    ASSERT_EQ(to_bfloat16(to_float(value)).bits, bits);
  }
}

TEST(BFloat16, ArraysConvertAsSingleValuesDo) {
  Random random(1, RandomStream::test);
  std::vector<float> values(1003);
  for (float& value : values) value = random.normal();
  std::vector<BFloat16> half(values.size());
  std::vector<float> back(values.size());
  convert(values, half);
  convert(half, back);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(half[i].bits, to_bfloat16(values[i]).bits);
    ASSERT_EQ(back[i], to_float(half[i]));
    ASSERT_LE(std::abs(back[i] - values[i]), 0x1p-8f * std::abs(values[i]));
  }
}

Float16 half(unsigned bits) { return {static_cast<std::uint16_t>(bits)}; }

TEST(Float16, HasKnownValues) {
  EXPECT_EQ(to_float(half(0x0001)), 0x1p-24f);
  EXPECT_EQ(to_float(half(0x03ff)), 1023 * 0x1p-24f);
  EXPECT_EQ(to_float(half(0x0400)), 0x1p-14f);
  EXPECT_EQ(to_float(half(0x3c00)), 1.0f);
  EXPECT_EQ(to_float(half(0xc000)), -2.0f);
  EXPECT_EQ(to_float(half(0x7bff)), 65504.0f);
  EXPECT_EQ(to_float(half(0xfc00)), -infinity);
  EXPECT_TRUE(std::isnan(to_float(half(0x7e01))));
  EXPECT_TRUE(std::signbit(to_float(half(0x8000))));
}

TEST(Float16, EveryOneSurvivesTheWayToFloatAndBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(half(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_float16(value))));
    } else {
      ASSERT_EQ(to_float16(value).bits, bits);
    }
  }
}

TEST(Float16, RoundsToNearestAndTiesToEven) {
  for (unsigned bits = 0; bits < 0x7bff; ++bits) {
    const float below = to_float(half(bits)), above = to_float(half(bits + 1));
    const float middle = below + (above - below) / 2;  // exact in float32
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(to_float16(middle).bits, even);
    ASSERT_EQ(to_float16(-middle).bits, even | 0x8000u);
    ASSERT_EQ(to_float16(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(to_float16(std::nextafter(middle, infinity)).bits, bits + 1);
  }
}

TEST(Float16, BeyondItsRangeIsInfinity) {
  EXPECT_EQ(to_float16(std::nextafter(65520.0f, 0.0f)).bits, 0x7bffu);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7c00u);
  EXPECT_EQ(to_float16(std::numeric_limits<float>::max()).bits, 0x7c00u);
  EXPECT_EQ(to_float16(-infinity).bits, 0xfc00u);
  EXPECT_EQ(to_float16(std::numeric_limits<float>::denorm_min()).bits, 0u);
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::numeric_limits<float>::signaling_NaN()))));
}

TEST(DataType, HasSizesAndNames) {
  EXPECT_EQ(size_of(DataType::float32), 4u);
  EXPECT_EQ(size_of(DataType::bfloat16), 2u);
  EXPECT_EQ(size_of(DataType::float16), 2u);
  EXPECT_EQ(name(DataType::bfloat16), "bf16");
  EXPECT_EQ(name(Precision::fp32), "fp32");
  EXPECT_EQ(name(Precision::tf32), "tf32");
}

}  // namespace
}  // namespace lockstep::core
