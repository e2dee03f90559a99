// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/data/plausibility.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace lockstep::data {

namespace {

// Share of equal images from which there is a warning. CIFAR-10 has none; published datasets with
// a few duplicates stay below it.
constexpr double least_share = 0.01;

constexpr double dominant_share = 0.6;  // of the test images, from which a class has too many
constexpr std::size_t least_of_dominant = 20;  // test images for this check

using Hashes = std::unordered_set<XXH64_hash_t>;

XXH64_hash_t hash(std::span<const std::uint8_t> pixels) {
  return XXH64(pixels.data(), pixels.size(), 0);
}

std::vector<XXH64_hash_t> hashes_of(const Dataset& images) {
  std::vector<XXH64_hash_t> hashes(images.size());
  for (std::size_t i = 0; i < hashes.size(); ++i) hashes[i] = hash(images.image(i));
  return hashes;
}

Hashes different(const std::vector<XXH64_hash_t>& hashes) {
  return {hashes.begin(), hashes.end(), hashes.size()};
}

/// Returns the number of images of each class (class).
std::vector<std::size_t> count_classes(const Dataset& images) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(images.info().classes));
  for (const std::int32_t label : images.labels()) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

/// Returns the number of absent classes that labels drawn at random, with equal probabilities,
/// exceed in less than about one of 1,000 datasets: the mean of the occupancy problem plus three
/// standard deviations.
double most_absent(std::size_t images, std::size_t classes) {
  const auto n = static_cast<double>(images), c = static_cast<double>(classes);
  const double one = std::pow(1 - 1 / c, n), two = std::pow(std::max(0.0, 1 - 2 / c), n);
  const double mean = c * one;
  const double variance = c * (c - 1) * two + mean - mean * mean;
  return mean + 3 * std::sqrt(std::max(0.0, variance));
}

/// Returns "the label 3" or "one of the labels 1, 2, 3, 4, ..." for ascending numbers.
std::string list_labels(const std::vector<std::size_t>& classes) {
  constexpr std::size_t shown = 4;
  if (classes.size() == 1) return fmt::format("the label {}", classes.front());
  const auto first = std::span(classes).first(std::min(shown, classes.size()));
  return fmt::format("one of the labels {}{}", fmt::join(first, ", "),
                     classes.size() > shown ? ", ..." : "");
}

std::string absent_classes(const std::vector<std::size_t>& counts, const Dataset& test,
                           std::size_t images, Extent extent) {
  std::vector<std::size_t> absent;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) absent.push_back(i);
  }
  const bool is_from_one = absent.size() == 1 && absent.front() == 0 &&
                           std::ranges::find(test.labels(), 0) == test.labels().end();
  const bool is_by_chance =
      static_cast<double>(absent.size()) <= most_absent(images, counts.size());
  if (is_by_chance && !is_from_one) return "";
  std::string advice = "check the labels, or remove the names of classes without images";
  if (is_from_one) {
    advice = "labels count from 0";
  } else if (extent == Extent::first_images) {
    advice =
        "--train-samples takes the first images of the file, which seem to be sorted by class; "
        "write them in random order";
  }
  return fmt::format("no training image has {} (of {} classes); {}", list_labels(absent),
                     counts.size(), advice);
}

std::string unlearned_classes(const std::vector<std::size_t>& train_counts, const Dataset& test) {
  const auto is_unlearned = [&](std::int32_t label) {
    return train_counts[static_cast<std::size_t>(label)] == 0;
  };
  const auto count = std::ranges::count_if(test.labels(), is_unlearned);
  if (static_cast<double>(count) < least_share * static_cast<double>(test.size())) return "";
  return fmt::format(
      "{} of the {} test images have classes of which there is no training image, so the test "
      "accuracy is at most {:.0f} %",
      count, test.size(),
      100 * (1 - static_cast<double>(count) / static_cast<double>(test.size())));
}

std::string known_test_images(const Hashes& train, const std::vector<XXH64_hash_t>& test) {
  const auto count = std::ranges::count_if(test, [&](auto image) { return train.contains(image); });
  if (static_cast<double>(count) < least_share * static_cast<double>(test.size())) return "";
  return fmt::format(
      "{} of the {} test images are also training images, so the test accuracy is too high; "
      "divide the images into training and test images without repeats",
      count, test.size());
}

/// `set`: "training" or "test", which has `images` images.
std::string repeated_images(std::string_view set, std::size_t distinct, std::size_t images) {
  const std::size_t repeats = images - distinct;
  if (static_cast<double>(repeats) < least_share * static_cast<double>(images)) return "";
  return fmt::format("only {} of the {} {} images are different; check how the file was written",
                     distinct, images, set);
}

std::string dominant_class(const Dataset& test) {
  const std::vector<std::size_t> counts = count_classes(test);
  const auto most = std::ranges::max_element(counts);
  const double share = static_cast<double>(*most) / static_cast<double>(test.size());
  if (test.size() < least_of_dominant || share < dominant_share) return "";
  return fmt::format(
      "{:.0f} % of the {} test images have the label {}, so a network that always answers this "
      "class has an accuracy of {:.0f} %; use images of all classes in equal numbers",
      100 * share, test.size(), most - counts.begin(), 100 * share);
}

std::string dark_pixels(const Dataset& train) {
  if (std::ranges::any_of(train.pixels(), [](std::uint8_t value) { return value > 1; })) return "";
  return "all pixels of the training images are 0 or 1, but white is 255; multiply images with "
         "values from 0 to 1 by 255 before they are written as integers";
}

}  // namespace

std::vector<std::string> implausible(const TrainingData& data, Extent extent) {
  const Dataset& train = *data.train;
  const Dataset& test = *data.test;
  const std::vector<std::size_t> counts = count_classes(train);
  const Hashes train_hashes = different(hashes_of(train));
  const std::vector<XXH64_hash_t> test_hashes = hashes_of(test);
  std::vector<std::string> warnings;
  for (const std::string& warning :
       {absent_classes(counts, test, train.size(), extent), unlearned_classes(counts, test),
        dominant_class(test), known_test_images(train_hashes, test_hashes),
        repeated_images("training", train_hashes.size(), train.size()),
        repeated_images("test", different(test_hashes).size(), test.size()), dark_pixels(train)}) {
    if (!warning.empty()) warnings.push_back(warning);
  }
  return warnings;
}

}  // namespace lockstep::data
