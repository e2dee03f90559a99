#include "digest.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "lockstep/core/random.hpp"

namespace lockstep::record {
namespace {

std::string digest_of(const std::vector<std::byte>& bytes) {
  Digest digest;
  digest.add(std::span<const std::byte>(bytes));
  return digest.hex();
}

// The expected digest was computed in Python with arbitrary-precision integers. Because it is
// fixed, later versions can verify the checkpoints of this version.
TEST(Digest, EqualsItsDefinition) {
  Digest digest;
  digest.add(std::string_view("lockstep"));
  digest.add(std::int64_t{-5});
  const std::vector<float> values{1, 2, 3};
  digest.add(std::span<const float>(values));
  EXPECT_EQ(digest.hex(), "0484e0d93589e10c10e79ccbd96acc70");
}

// Longer than the blocks of words that are added at once, with a remainder.
TEST(Digest, OfALongTextEqualsItsDefinition) {
  std::vector<std::byte> bytes(1003);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((7 * i + 255) % 256);
  }
  Digest digest;
  digest.add(std::span<const std::byte>(bytes));
  digest.add(std::span<const std::byte>(std::vector<std::byte>(64, std::byte{0xff})));
  EXPECT_EQ(digest.hex(), "05a98d9a2d0e7e1d1e7619f15d25b7bf");
}

TEST(Digest, DetectsEveryFlippedBit) {
  core::Random random(7, core::RandomStream::test);
  std::vector<std::byte> bytes(67);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  std::set<std::string> seen{digest_of(bytes)};
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto mask = static_cast<std::byte>(1u << (bit % 8));
    bytes[bit / 8] ^= mask;
    EXPECT_TRUE(seen.insert(digest_of(bytes)).second) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
}

TEST(Digest, DependsOnTheLengthOfEachPart) {
  Digest one, other;
  one.add(std::string_view("ab"));
  one.add(std::string_view("c"));
  other.add(std::string_view("a"));
  other.add(std::string_view("bc"));
  EXPECT_NE(one.hex(), other.hex());
}

TEST(Digest, DependsOnTheOrder) {
  const std::vector<float> first{1, 2}, second{3, 4};
  Digest one, other;
  one.add(std::span<const float>(first));
  one.add(std::span<const float>(second));
  other.add(std::span<const float>(second));
  other.add(std::span<const float>(first));
  EXPECT_NE(one.hex(), other.hex());
}

TEST(Digest, DependsOnTheNumberOfZeros) {
  std::set<std::string> seen;
  for (std::size_t count = 0; count < 64; ++count) {
    EXPECT_TRUE(seen.insert(digest_of(std::vector<std::byte>(count))).second) << count;
  }
}

}  // namespace
}  // namespace lockstep::record
