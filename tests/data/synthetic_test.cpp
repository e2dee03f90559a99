#include "synthetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "data/images.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/data/loader.hpp"

namespace lockstep::data {
namespace {

constexpr std::size_t image_bytes = 3 * 32 * 32;

TEST(Synthetic, IsAFunctionOfSeedSplitAndSample) {
  using synthetic::generate;
  using synthetic::Split;
  const Dataset set = generate(Split::train, 40, 1);
  EXPECT_EQ(set.images, generate(Split::train, 40, 1).images);
  EXPECT_NE(set.images, generate(Split::train, 40, 2).images);
  EXPECT_NE(set.images, generate(Split::test, 40, 1).images);
  const Dataset longer = generate(Split::train, 80, 1);
  EXPECT_TRUE(std::equal(set.images.begin(), set.images.end(), longer.images.begin()))
      << "the first samples do not depend on how many follow";
}

TEST(Synthetic, StaysTheSameOverVersions) {
  // A change of the generator would change the training data of every recorded run; this digest
  // detects it.
  EXPECT_EQ(load({.source = "synthetic:100", .seed = 1}).digest, "11c186f6de45a1fb");
}

TEST(Synthetic, HasTheSizesAskedFor) {
  const DataSizes all = sizes({});
  EXPECT_EQ(all.train, 10'000u);
  EXPECT_EQ(all.test, 2'000u);
  EXPECT_EQ(all.classes, 10);
  EXPECT_EQ(all.image, (core::ImageShape{3, 32, 32}));

  const TrainingData data =
      load({.source = "synthetic:500", .train_samples = 64, .test_samples = 30});
  EXPECT_EQ(data.train.size(), 64u);
  EXPECT_EQ(data.test.size(), 30u);
  EXPECT_EQ(data.train.images.size(), 64 * image_bytes);
  EXPECT_EQ(data.train.class_names.size(), 10u);
  EXPECT_EQ(data.origin, "synthetic:500");
  EXPECT_EQ(sizes({.source = "synthetic:3"}).test, 1u);
}

TEST(Synthetic, NamesBadSources) {
  using core::ExitStatus;
  for (const char* source : {"synthetic:", "synthetic:0", "synthetic:-4", "synthetic:10x",
                             "synthetic: 10", "synthetic:99999999999999999999"}) {
    expect_error(ExitStatus::usage, {source, "number of images", "synthetic:10000"},
                 [source] { load({.source = source}); });
  }
  for (const char* source : {"", "cifar100:x", "cifar10", "cifar10:", "/data", "Synthetic"}) {
    expect_error(ExitStatus::usage, {"unknown source", "cifar10:DIR", "synthetic:N"},
                 [source] { sizes({.source = source}); });
  }
  expect_error(ExitStatus::usage, {"--train-samples 600", "synthetic:500", "500"},
               [] { load({.source = "synthetic:500", .train_samples = 600}); });
  expect_error(ExitStatus::usage, {"--test-samples 101", "100"},
               [] { load({.source = "synthetic:500", .test_samples = 101}); });
}

// Returns the fraction of test images whose nearest class mean (by squared distance) is the mean of
// their own class.
double nearest_mean_accuracy(const Dataset& train, const Dataset& test) {
  std::vector<std::vector<double>> means(10, std::vector<double>(image_bytes));
  std::vector<double> counts(10);
  for (std::size_t i = 0; i < train.size(); ++i) {
    const auto pixels = train.pixels(i);
    counts[train.labels[i]] += 1;
    for (std::size_t p = 0; p < image_bytes; ++p) means[train.labels[i]][p] += pixels[p];
  }
  for (std::size_t c = 0; c < 10; ++c) {
    for (double& value : means[c]) value /= counts[c];
  }
  std::size_t right = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    double nearest = std::numeric_limits<double>::max();
    std::size_t guess = 0;
    for (std::size_t c = 0; c < 10; ++c) {
      double distance = 0;
      for (std::size_t p = 0; p < image_bytes; ++p) {
        const double difference = test.pixels(i)[p] - means[c][p];
        distance += difference * difference;
      }
      if (distance < nearest) {
        nearest = distance;
        guess = c;
      }
    }
    right += guess == test.labels[i] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

TEST(Synthetic, CanBeLearntButNotAtAGlance) {
  const TrainingData data = load({.source = "synthetic:3000"});
  // Random guessing gives 0.1, with a standard deviation of 0.012 over 600 images.
  const double accuracy = nearest_mean_accuracy(data.train, data.test);
  EXPECT_GT(accuracy, 0.18);
  EXPECT_LT(accuracy, 0.60);
}

// Returns, for each pixel, the sum over the channels and over all images of class `label`: the mean
// grey image of the class, up to a factor.
std::vector<double> mean_image(const Dataset& set, std::size_t label) {
  std::vector<double> mean(32 * 32);
  for (std::size_t i = label; i < set.size(); i += 10) {
    for (std::size_t p = 0; p < image_bytes; ++p) mean[p % 1024] += set.pixels(i)[p];
  }
  return mean;
}

TEST(Synthetic, MirroringKeepsTheClass) {
  // The mean image of a class is equal to its mirror image except for the noise of 400 images, so
  // the mirror image is closer to it than to the mean image of any other class.
  const Dataset set = synthetic::generate(synthetic::Split::train, 4000, 1);
  const auto distance = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t p = 0; p < a.size(); ++p) sum += (a[p] - b[p]) * (a[p] - b[p]);
    return sum;
  };
  for (std::size_t label = 0; label < 10; ++label) {
    const std::vector<double> own = mean_image(set, label);
    std::vector<double> mirrored = own;
    for (std::size_t y = 0; y < 32; ++y) {
      std::reverse(mirrored.begin() + static_cast<std::ptrdiff_t>(32 * y),
                   mirrored.begin() + static_cast<std::ptrdiff_t>(32 * (y + 1)));
    }
    for (std::size_t other = 0; other < 10; ++other) {
      if (other == label) continue;
      EXPECT_LT(distance(own, mirrored), distance(mean_image(set, other), mirrored))
          << label << " " << other;
    }
  }
}

}  // namespace
}  // namespace lockstep::data
