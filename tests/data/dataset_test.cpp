#include "lockstep/data/dataset.hpp"

#include <gtest/gtest.h>

#include "data/images.hpp"

namespace lockstep::data {
namespace {

constexpr core::ImageShape shape{2, 3, 4};

TEST(Dataset, CopiesConsecutiveImages) {
  const LabelledImages content = random_content(12, shape);
  const InMemoryDataset set = make_dataset(content, shape);
  const BufferedDataset buffered(set);
  for (const Dataset* dataset :
       {static_cast<const Dataset*>(&set), static_cast<const Dataset*>(&buffered)}) {
    std::vector<std::uint8_t> copy(3 * 24);
    dataset->copy_images(5, copy);
    EXPECT_TRUE(std::equal(copy.begin(), copy.end(), content.images.begin() + 5 * 24));
  }
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
    EXPECT_EQ(expected.info.class_names, set->info().class_names);
    EXPECT_EQ(expected.info.normalisation.mean, set->info().normalisation.mean);
  }
  EXPECT_EQ(expected.memory_bytes, 60u * (2 * 9 * 7 + 4));
}

// A watchdog ends a rank that reports no progress for minutes.
TEST(Dataset, ReportsProgressWhileImagesAreGenerated) {
  struct Counter final : core::ProgressMonitor {
    void begin(const char*, std::int64_t) override {}
    void advance() noexcept override { ++count; }
    int count = 0;
  } counter;
  load({.source = "synthetic:5000@1x2x2", .progress = &counter});
  EXPECT_GE(counter.count, 6);  // 5,000 training images and 1,000 test images
}

}  // namespace
}  // namespace lockstep::data
