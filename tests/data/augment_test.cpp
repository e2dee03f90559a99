// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <array>

#include "data/images.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/loader.hpp"

namespace lockstep::data {
namespace {

// Reference implementation, pixel by pixel: pads the image by 4, crops it at (`top`, `left`) and,
// if `flip`, mirrors the crop.
std::vector<std::uint8_t> plain(core::ImageShape shape, const std::vector<std::uint8_t>& from,
                                std::int64_t top, std::int64_t left, bool flip) {
  std::vector<std::uint8_t> to;
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    for (std::int64_t y = 0; y < shape.height; ++y) {
      for (std::int64_t x = 0; x < shape.width; ++x) {
        const std::int64_t from_y = y + top - 4;
        const std::int64_t from_x = (flip ? shape.width - 1 - x : x) + left - 4;
        const bool inside =
            from_y >= 0 && from_y < shape.height && from_x >= 0 && from_x < shape.width;
        const auto at =
            static_cast<std::size_t>((c * shape.height + from_y) * shape.width + from_x);
        to.push_back(inside ? from[at] : std::uint8_t{0});
      }
    }
  }
  return to;
}

class AugmentTest : public testing::TestWithParam<core::ImageShape> {};

TEST_P(AugmentTest, EqualsThePlainFormula) {
  const core::ImageShape shape = GetParam();
  const auto from = random_bytes(static_cast<std::size_t>(shape.elements()), 1);
  std::vector<std::uint8_t> to(from.size(), 77);
  for (std::uint32_t sample = 0; sample < 400; ++sample) {
    augment(Augmentation::crop_flip, shape, from, to, 3, 11, sample);
    core::Random random(3, core::RandomStream::augmentation, 11, sample);
    const auto top = std::int64_t{random.below(9)};
    const auto left = std::int64_t{random.below(9)};
    const bool flip = random.bits() % 2 == 1;
    ASSERT_EQ(to, plain(shape, from, top, left, flip)) << top << " " << left << " " << flip;
  }
}

// The last two shapes are smaller than the padding.
INSTANTIATE_TEST_SUITE_P(Shapes, AugmentTest,
                         testing::Values(core::ImageShape{3, 32, 32}, core::ImageShape{1, 7, 13},
                                         core::ImageShape{2, 3, 2}, core::ImageShape{1, 1, 1}));

TEST(Augment, NoneCopies) {
  const auto from = random_bytes(3072, 1);
  std::vector<std::uint8_t> to(3072);
  augment(Augmentation::none, {3, 32, 32}, from, to, 1, 0, 0);
  EXPECT_EQ(to, from);
}

TEST(Augment, DependsOnSeedEpochAndSample) {
  const auto from = random_bytes(3072, 1);
  const auto result = [&from](std::uint64_t seed, std::int64_t epoch) {
    std::vector<std::uint8_t> all(50 * 3072);  // enough to rule out equality by chance
    for (std::uint32_t sample = 0; sample < 50; ++sample) {
      augment(Augmentation::crop_flip, {3, 32, 32}, from,
              std::span(all).subspan(sample * std::size_t{3072}, 3072), seed, epoch, sample);
    }
    return all;
  };
  EXPECT_EQ(result(1, 0), result(1, 0));
  EXPECT_NE(result(1, 0), result(2, 0));
  EXPECT_NE(result(1, 0), result(1, 1));
}

TEST(Augment, RefusesWrongSizes) {
  const std::vector<std::uint8_t> from(3072);
  std::vector<std::uint8_t> to(3071);
  EXPECT_THROW(augment(Augmentation::none, {3, 32, 32}, from, to, 1, 0, 0), core::Error);
}

}  // namespace
}  // namespace lockstep::data
