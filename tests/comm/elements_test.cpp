// SPDX-License-Identifier: BSD-3-Clause
#include "elements.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::comm {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

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

TEST(Float16, EveryValueSurvivesTheWayThereAndBack) {
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

TEST(ElementTypes, ArraysOfEveryTypeAreReadAndWritten) {
  const std::vector<float> values = {0, 1, -2.5f, 1024, 0.125f};  // exact in all three data types
  for (const auto type :
       {core::DataType::float32, core::DataType::bfloat16, core::DataType::float16}) {
    alignas(4) std::array<std::byte, 4 * 5 + 1> memory{};
    memory[values.size() * core::size_of(type)] = std::byte{7};
    store_floats(values, type, memory.data());
    EXPECT_EQ(memory[values.size() * core::size_of(type)], std::byte{7}) << "wrote too far";
    std::vector<float> back(values.size());
    load_floats(memory.data(), type, back);
    EXPECT_EQ(back, values);
  }
}

}  // namespace
}  // namespace lockstep::comm
