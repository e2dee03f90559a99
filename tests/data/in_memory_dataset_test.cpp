#include "in_memory_dataset.hpp"

#include <gtest/gtest.h>

#include "data/images.hpp"

namespace lockstep::data {
namespace {

constexpr core::ImageShape shape{2, 3, 4};

TEST(InMemoryDataset, ReturnsViewsOfItsImages) {
  const LabelledImages content = random_content(12, shape);
  const InMemoryDataset set = make_dataset(content, shape);
  EXPECT_EQ(set.size(), 12u);
  EXPECT_EQ(set.image_bytes(), 24u);
  EXPECT_EQ(set.label(11), 1);
  const auto image = set.read_image(11, {});
  EXPECT_TRUE(std::equal(image.begin(), image.end(), content.images.begin() + 11 * 24));
  EXPECT_EQ(set.read_image(11, {}).data(), image.data());
}

TEST(InMemoryDataset, RefusesContentThatDoesNotFit) {
  LabelledImages content = random_content(12, shape);
  content.images.pop_back();
  EXPECT_THROW(make_dataset(content, shape), core::Error);
  content = random_content(12, shape);
  EXPECT_THROW(make_dataset(content, shape, 9), core::Error);
  content.labels[3] = -1;
  EXPECT_THROW(make_dataset(content, shape), core::Error);
}

}  // namespace
}  // namespace lockstep::data
