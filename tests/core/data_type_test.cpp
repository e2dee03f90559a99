// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/data_type.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/core/random.hpp"

namespace lockstep::core {
namespace {

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
  constexpr float infinity = std::numeric_limits<float>::infinity();
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
