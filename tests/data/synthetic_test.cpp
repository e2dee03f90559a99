// SPDX-License-Identifier: BSD-3-Clause
#include "synthetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "data/images.hpp"
#include "lockstep/data/dataset.hpp"

namespace lockstep::data::synthetic {
namespace {

constexpr std::size_t image_bytes = 3 * 32 * 32;

std::span<const std::uint8_t> pixels(const LabelledImages& set, std::size_t sample) {
  return std::span(set.images).subspan(sample * image_bytes, image_bytes);
}

TEST(Synthetic, DependsOnlyOnSeedSplitAndSample) {
  const LabelledImages set = generate(Split::train, 40, 1);
  EXPECT_EQ(set.images, generate(Split::train, 40, 1).images);
  EXPECT_NE(set.images, generate(Split::train, 40, 2).images);
  EXPECT_NE(set.images, generate(Split::test, 40, 1).images);
  const LabelledImages longer = generate(Split::train, 80, 1);
  EXPECT_TRUE(std::equal(set.images.begin(), set.images.end(), longer.images.begin()))
      << "the first samples do not depend on how many follow";
}

TEST(Synthetic, StaysTheSameOverVersions) {
  // A change of the generator would change the training data of every recorded run; this digest
  // detects it.
  EXPECT_EQ(load({.source = "synthetic:100", .seed = 1}).digest, "11c186f6de45a1fb");
}

TEST(Synthetic, EachClassOfSeveralDigitsHasItsOwnShapes) {
  // The noise of an image is below 25 per pixel, and the contrast of the shapes is at least 60, so
  // a threshold between the darkest and the brightest pixel separates them.
  const Parameters parameters{.image = {1, 64, 32}, .classes = 100};
  const LabelledImages set = generate(Split::train, 100, 1, parameters);
  EXPECT_EQ(set.labels[57], 57);
  const auto covered = [&](std::size_t label) {
    const auto pixels = std::span(set.images).subspan(label * 64 * 32, 64 * 32);
    const auto [low, high] = std::minmax_element(pixels.begin(), pixels.end());
    const int middle = (*low + *high) / 2;
    const bool background_is_bright = pixels[0] > middle;
    std::array<int, 2> counts{};  // covered pixels of the upper and of the lower half
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      counts[i / (32 * 32)] += (pixels[i] > middle) != background_is_bright ? 1 : 0;
    }
    return counts;
  };
  // A disc (digit 0) covers pi * radius^2 pixels, a plus (digit 4) 0.51 * (2 * radius)^2, with a
  // radius of 9 to 11 pixels.
  const auto expect_between = [](int count, double low, double high) {
    EXPECT_GT(count, low);
    EXPECT_LT(count, high);
  };
  const auto [upper, lower] = covered(40);  // the disc is above the plus
  expect_between(upper, 240, 400);
  expect_between(lower, 150, 255);
  const auto [upper_of_4, lower_of_4] = covered(4);
  expect_between(upper_of_4, 150, 255);
  expect_between(lower_of_4, 240, 400);
}

TEST(Synthetic, FillsEveryShapeOfImages) {
  for (const core::ImageShape image :
       {core::ImageShape{1, 8, 8}, core::ImageShape{5, 7, 13}, core::ImageShape{3, 1, 1}}) {
    const LabelledImages set = generate(Split::train, 30, 1, {.image = image, .classes = 3});
    EXPECT_EQ(set.images.size(), 30u * static_cast<std::size_t>(image.elements()));
    EXPECT_EQ(set.labels[29], 2);
    // Noise alone gives every channel several values.
    for (std::int64_t channel = 0; channel < image.channels; ++channel) {
      std::set<std::uint8_t> values;
      for (std::int64_t i = 0; i < 30; ++i) {
        const std::int64_t at = (i * image.channels + channel) * image.pixels();
        values.insert(set.images[static_cast<std::size_t>(at)]);
      }
      EXPECT_GT(values.size(), 10u) << channel;
    }
  }
}

// Returns the fraction of test images whose nearest class mean (by squared distance) is the mean of
// their own class.
double nearest_mean_accuracy(const LabelledImages& train, const LabelledImages& test) {
  std::vector<std::vector<double>> means(10, std::vector<double>(image_bytes));
  std::vector<double> counts(10);
  for (std::size_t i = 0; i < train.labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(train.labels[i]);
    counts[label] += 1;
    for (std::size_t p = 0; p < image_bytes; ++p) means[label][p] += pixels(train, i)[p];
  }
  for (std::size_t c = 0; c < 10; ++c) {
    for (double& value : means[c]) value /= counts[c];
  }
  std::size_t right = 0;
  for (std::size_t i = 0; i < test.labels.size(); ++i) {
    double nearest = std::numeric_limits<double>::max();
    std::size_t guess = 0;
    for (std::size_t c = 0; c < 10; ++c) {
      double distance = 0;
      for (std::size_t p = 0; p < image_bytes; ++p) {
        const double difference = pixels(test, i)[p] - means[c][p];
        distance += difference * difference;
      }
      if (distance < nearest) {
        nearest = distance;
        guess = c;
      }
    }
    right += guess == static_cast<std::size_t>(test.labels[i]) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.labels.size());
}

TEST(Synthetic, CanBeLearntButNotAtAGlance) {
  // Random guessing gives 0.1, with a standard deviation of 0.012 over 600 images.
  const double accuracy =
      nearest_mean_accuracy(generate(Split::train, 3000, 1), generate(Split::test, 600, 1));
  EXPECT_GT(accuracy, 0.18);
  EXPECT_LT(accuracy, 0.60);
}

// Returns, for each pixel, the sum over the channels and over all images of class `label`: the mean
// grey image of the class, up to a factor.
std::vector<double> mean_image(const LabelledImages& set, std::size_t label) {
  std::vector<double> mean(32 * 32);
  for (std::size_t i = label; i < set.labels.size(); i += 10) {
    for (std::size_t p = 0; p < image_bytes; ++p) mean[p % 1024] += pixels(set, i)[p];
  }
  return mean;
}

TEST(Synthetic, MirroringKeepsTheClass) {
  // The mean image of a class is equal to its mirror image except for the noise of 400 images, so
  // the mirror image is closer to it than to the mean image of any other class.
  const LabelledImages set = generate(Split::train, 4000, 1);
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
}  // namespace lockstep::data::synthetic
