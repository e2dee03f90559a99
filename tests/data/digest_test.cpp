// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "data/images.hpp"
#include "digest.hpp"

namespace lockstep::data {
namespace {

// Checkpoints store the digest, so a change of its value would prevent every run from resuming.
TEST(Digest, StaysTheSameOverVersions) {
  EXPECT_EQ(digest(random_dataset(20, {3, 4, 4}), random_dataset(10, {3, 4, 4})),
            "edea2947cbb25ded");
  EXPECT_EQ(digest(random_dataset(1, {1, 1, 1}), random_dataset(0, {1, 1, 1})), "9188b263efd812a4");
}

constexpr core::ImageShape digest_shape{3, 4, 4};

std::string digest_of(const LabelledImages& train, const LabelledImages& test,
                      std::int64_t classes = 10) {
  return digest(make_dataset(train, digest_shape, classes),
                make_dataset(test, digest_shape, classes));
}

TEST(Digest, SeesEveryPart) {
  const LabelledImages train = random_content(20, digest_shape);
  const LabelledImages test = random_content(10, digest_shape);
  const std::string original = digest_of(train, test);
  EXPECT_EQ(original.size(), 16u);
  EXPECT_EQ(original, digest_of(train, test));

  LabelledImages changed = train;
  changed.images[500] ^= 1;
  EXPECT_NE(digest_of(changed, test), original);
  changed = train;
  changed.labels[3] ^= 1;
  EXPECT_NE(digest_of(changed, test), original);
  changed = test;
  changed.images[0] ^= 0x80;
  EXPECT_NE(digest_of(train, changed), original);
  changed = test;
  changed.labels[9] -= 1;
  EXPECT_NE(digest_of(train, changed), original);
  EXPECT_NE(digest_of(test, train), original);
}

TEST(Digest, SeesLabelsAboveTheBytes) {
  LabelledImages train = random_content(20, digest_shape);
  const LabelledImages test = random_content(10, digest_shape);
  const std::string original = digest_of(train, test, 1000);
  train.labels[3] += 256;
  EXPECT_NE(digest_of(train, test, 1000), original);
}

}  // namespace
}  // namespace lockstep::data
