// SPDX-License-Identifier: BSD-3-Clause
#include "digest.hpp"

#include <fmt/format.h>
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

// Because the definition is fixed, later versions can verify the checkpoints of this version.
TEST(Digest, HashesLengthsAndBytes) {
  Digest digest;
  digest.add(std::string_view("lockstep"));
  digest.add(std::int64_t{-5});
  const std::vector<float> values(1000, 1.5f);
  digest.add(std::span<const float>(values));
  std::string bytes;
  const auto append = [&](const auto& span) {
    const std::uint64_t size = span.size_bytes();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes.append(reinterpret_cast<const char*>(span.data()), size);
  };
  const std::int64_t number = -5;
  append(std::span(std::string_view("lockstep")));
  append(std::span(&number, 1));
  append(std::span(values));
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  EXPECT_EQ(digest.hex(), fmt::format("{:016x}{:016x}", hash.high64, hash.low64));
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
