#include "digest.hpp"

#include <gtest/gtest.h>

#include "data/images.hpp"

namespace lockstep::data {
namespace {

// Checkpoints store the digest, so a change of its value would prevent every run from resuming.
TEST(Digest, StaysTheSameOverVersions) {
  EXPECT_EQ(digest(random_dataset(20, {3, 4, 4}), random_dataset(10, {3, 4, 4})),
            "edea2947cbb25ded");
  EXPECT_EQ(digest(random_dataset(1, {1, 1, 1}), {}), "9188b263efd812a4");
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
