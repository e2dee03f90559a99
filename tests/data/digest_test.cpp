#include "digest.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include "data/images.hpp"

namespace lockstep::data {
namespace {

std::uint64_t hash(std::string_view text, std::uint64_t seed = 0) {
  return xxh64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, seed);
}

// The expected values are those of the xxhash library. The lengths cover every branch (below 4, 8
// and 32 bytes, above 32).
TEST(Digest, IsXxh64) {
  EXPECT_EQ(hash(""), 0xef46db3751d8e999u);
  EXPECT_EQ(hash("a"), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(hash("abc"), 0x44bc2cf5ad770999u);
  EXPECT_EQ(hash("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1u);
  EXPECT_EQ(hash("0123456"), 0x97ee4fe4a0ff4dfau);
  EXPECT_EQ(hash("0123456789"), 0x3f5fc178a81867e7u);
  EXPECT_EQ(hash("Nobody inspects the spammish repetition", 2026), 0xe6cd0b7977e3c231u);
}

TEST(Digest, SeesEveryPart) {
  const Dataset train = random_dataset(20, {3, 4, 4});
  const Dataset test = random_dataset(10, {3, 4, 4});
  const std::string original = digest(train, test);
  EXPECT_EQ(original.size(), 16u);
  EXPECT_EQ(original, digest(train, test));

  Dataset changed = train;
  changed.images[500] ^= 1;
  EXPECT_NE(digest(changed, test), original);
  changed = train;
  changed.labels[3] ^= 1;
  EXPECT_NE(digest(changed, test), original);
  changed = test;
  changed.images[0] ^= 0x80;
  EXPECT_NE(digest(train, changed), original);
  changed = test;
  changed.labels[9] ^= 1;
  EXPECT_NE(digest(train, changed), original);
  EXPECT_NE(digest(test, train), original);
}

}  // namespace
}  // namespace lockstep::data
