// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/data/loader.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "data/images.hpp"
#include "expect_error.hpp"

namespace lockstep::data {
namespace {

constexpr core::ImageShape loader_shape{3, 8, 8};
constexpr std::size_t image_bytes = 3 * 8 * 8;

struct Content {
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
  bool operator==(const Content&) const = default;
};

void append(const Batch& batch, Content& to) {
  to.images.insert(to.images.end(), batch.images.begin(), batch.images.end());
  to.labels.insert(to.labels.end(), batch.labels.begin(), batch.labels.end());
}

class LoaderTest : public testing::TestWithParam<int> {
 protected:
  DataOptions options() const { return {.loader_threads = GetParam(), .seed = 4}; }

  const Dataset dataset = random_dataset(100, loader_shape);
  const DistributedSampler sampler{100, 12, 2, 4, LastBatch::drop};  // 8 steps per epoch
};

TEST_P(LoaderTest, GivesTheAugmentedSamplesInTheSamplersOrder) {
  for (const int rank : {0, 1}) {
    DataLoader loader(dataset, sampler, rank, options());
    for (const std::int64_t epoch : {0, 1, 7}) {
      const std::vector<std::uint32_t> order = sampler.epoch(epoch, rank);
      loader.start_epoch(epoch);
      for (std::size_t step = 0; step < sampler.steps_per_epoch(); ++step) {
        const Batch batch = loader.next();
        ASSERT_EQ(batch.images.size(), 6 * image_bytes);
        ASSERT_EQ(batch.labels.size(), 6u);
        for (std::size_t i = 0; i < 6; ++i) {
          const std::uint32_t sample = order[step * 6 + i];
          std::vector<std::uint8_t> image(image_bytes);
          augment(Augmentation::crop_flip, loader_shape, dataset.image(sample), image, 4, epoch,
                  sample);
          const auto got = batch.images.subspan(i * image_bytes, image_bytes);
          ASSERT_TRUE(std::equal(got.begin(), got.end(), image.begin())) << step << " " << i;
          ASSERT_EQ(batch.labels[i], dataset.labels()[sample]);
        }
      }
    }
  }
}

TEST_P(LoaderTest, KeepsABatchUntilTheNextCall) {
  DataLoader loader(dataset, sampler, 0, options());
  loader.start_epoch(0);
  for (std::size_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    const Batch batch = loader.next();
    Content before;
    append(batch, before);
    // Gives the loader's threads time to overwrite the batch, which they must never do.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    Content after;
    append(batch, after);
    EXPECT_EQ(before, after);
  }
}

TEST_P(LoaderTest, StartsAnywhereAndAgain) {
  DataLoader loader(dataset, sampler, 0, options());
  std::vector<Content> steps(sampler.steps_per_epoch());
  loader.start_epoch(2);
  for (Content& step : steps) append(loader.next(), step);

  for (const std::size_t first : {5u, 0u, 7u, 3u}) {
    loader.start_epoch(9);  // this epoch is not completed, or no batch is requested
    if (first % 2 == 1) loader.next();
    loader.start_epoch(2, first);
    for (std::size_t step = first; step < std::min<std::size_t>(first + 3, 8); ++step) {
      Content content;
      append(loader.next(), content);
      EXPECT_EQ(content, steps[step]) << first << " " << step;
    }
  }
}

TEST_P(LoaderTest, RefusesToGoPastTheEnd) {
  DataLoader loader(dataset, sampler, 0, options());
  EXPECT_THROW(loader.next(), core::Error) << "no epoch has begun";
  loader.start_epoch(0, 7);
  loader.next();
  EXPECT_THROW(loader.next(), core::Error);
  loader.start_epoch(1, 8);
  EXPECT_THROW(loader.next(), core::Error);
  EXPECT_THROW(loader.start_epoch(1, 9), core::Error);
  loader.start_epoch(1);
  EXPECT_NO_THROW(loader.next()) << "usable afterwards";
}

TEST_P(LoaderTest, EndsWhileWorkIsUnderWay) {
  for (int i = 0; i < 50; ++i) {
    DataLoader loader(dataset, sampler, 0, options());
    if (i % 3 > 0) loader.start_epoch(i);
    if (i % 3 > 1) loader.next();
  }
}

TEST_P(LoaderTest, RefusesARankThatTheSamplerDoesNotHave) {
  DataLoader loader(dataset, sampler, 2, options());
  EXPECT_THROW(loader.start_epoch(0), core::Error);
}

INSTANTIATE_TEST_SUITE_P(Threads, LoaderTest, testing::Values(0, 1, 2, 5));

}  // namespace
}  // namespace lockstep::data
