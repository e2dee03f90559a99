// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/random.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

namespace lockstep::core {
namespace {

using testing::ElementsAre;

TEST(Random, ItsSequenceIsThatOfTheKeyAndTheCounter) {
  const auto key = random_key(0x123456789abcdefull, RandomStream::operations);
  Random random(0x123456789abcdefull, RandomStream::operations, (7ull << 32) | 5, 3);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (const std::uint32_t bits : philox4x32({block, 3, 5, 7}, key))
      EXPECT_EQ(random.uniform(), to_uniform(bits));
  }
}

TEST(Philox, GivesThePublishedNumbers) {
  // Known-answer test of Random123: the lines "philox4x32 10" of its file kat_vectors.
  constexpr std::uint32_t ones = 0xffffffffu;
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(philox4x32({ones, ones, ones, ones}, {ones, ones}),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(
      philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(Random, DependsOnlyOnItsFourNumbers) {
  const auto first = [](std::uint64_t seed, RandomStream stream, std::uint64_t index,
                        std::uint32_t sub_index) {
    return Random(seed, stream, index, sub_index).bits();
  };
  EXPECT_EQ(first(1, RandomStream::test, 2, 3), first(1, RandomStream::test, 2, 3));
  std::set<std::uint32_t> different;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32}) {
    for (const RandomStream stream : {RandomStream::weights, RandomStream::synthetic}) {
      for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1} << 32}) {
        for (const std::uint32_t sub_index : {0u, 7u}) {
          different.insert(first(seed, stream, index, sub_index));
        }
      }
    }
  }
  EXPECT_EQ(different.size(), 3u * 2 * 2 * 2);
}

TEST(Random, DoesNotRepeatFromBlockToBlock) {
  Random random(1, RandomStream::test);
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.bits());
  EXPECT_GE(seen.size(), 999u);
}

TEST(Random, UniformStaysBelowOneAndIsEven) {
  Random random(2, RandomStream::test);
  double sum = 0;
  constexpr int count = 100'000;
  for (int i = 0; i < count; ++i) {
    const float value = random.uniform();
    ASSERT_GE(value, 0.0f);
    ASSERT_LT(value, 1.0f);
    sum += value;
  }
  EXPECT_NEAR(sum / count, 0.5, 5 / std::sqrt(12.0 * count));  // five standard errors
}

TEST(Random, BelowReachesEveryValueEquallyOften) {
  Random random(3, RandomStream::test);
  std::array<int, 9> hits{};
  constexpr int count = 90'000;
  for (int i = 0; i < count; ++i) ++hits.at(random.below(9));
  for (const int hit : hits) EXPECT_NEAR(hit, count / 9, 5 * std::sqrt(count / 9.0));
  EXPECT_EQ(random.below(1), 0u);
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  Random random(4, RandomStream::test);
  double sum = 0;
  double squares = 0;
  constexpr int count = 100'000;
  for (int i = 0; i < count; ++i) {
    const double value = random.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2.0 / count));
}

}  // namespace
}  // namespace lockstep::core
