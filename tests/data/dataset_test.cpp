// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/data/dataset.hpp"

#include <gtest/gtest.h>

#include "data/images.hpp"

namespace lockstep::data {
namespace {

constexpr core::ImageShape dataset_shape{2, 3, 4};

TEST(Dataset, ReturnsViewsOfItsImages) {
  const LabelledImages content = random_content(12, dataset_shape);
  const Dataset set = make_dataset(content, dataset_shape);
  EXPECT_EQ(set.size(), 12u);
  EXPECT_EQ(set.labels()[11], 1);
  EXPECT_EQ(set.image_bytes(), 24u);
  EXPECT_TRUE(std::ranges::equal(set.image(11), std::span(content.images).last(24)));
  EXPECT_EQ(set.image(11).data(), set.pixels().data() + 11 * 24);
}

TEST(Dataset, RefusesContentThatDoesNotFit) {
  LabelledImages content = random_content(12, dataset_shape);
  content.images.pop_back();
  EXPECT_THROW(make_dataset(content, dataset_shape), core::Error);
  content = random_content(12, dataset_shape);
  EXPECT_THROW(make_dataset(content, dataset_shape, 9), core::Error);
  content.labels[3] = -1;
  EXPECT_THROW(make_dataset(content, dataset_shape), core::Error);
}

// `lockstep plan` and the memory estimate use the sizes; the run uses what `load` returns.
TEST(Dataset, SizesAreThoseOfTheLoadedData) {
  const DataOptions options{
      .source = "synthetic:60@2x9x7/4", .train_samples = 50, .test_samples = 10, .seed = 2};
  const DataSizes expected = sizes(options);
  const TrainingData data = load(options);
  EXPECT_EQ(expected.train, data.train->size());
  EXPECT_EQ(expected.test, data.test->size());
  for (const Dataset* set : {data.train.get(), data.test.get()}) {
    EXPECT_EQ(expected.info.name, set->info().name);
    EXPECT_EQ(expected.info.image, set->info().image);
    EXPECT_EQ(expected.info.classes, set->info().classes);
    EXPECT_EQ(expected.info.normalisation.mean, set->info().normalisation.mean);
  }
  EXPECT_EQ(expected.memory_bytes, 60u * (2 * 9 * 7 + 4));
}

// A watchdog ends a rank that reports no progress for minutes.
TEST(Dataset, ReportsProgressWhileImagesAreGenerated) {
  struct Counter final : core::ProgressMonitor {
    void begin(core::Activity, std::int64_t) override {}
    void advance() noexcept override { ++count; }
    int count = 0;
  } counter;
  load({.source = "synthetic:5000@1x2x2", .progress = &counter});
  EXPECT_GE(counter.count, 6);  // 5,000 training images and 1,000 test images
}

}  // namespace
}  // namespace lockstep::data
