#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/progress.hpp"
#include "lockstep/core/shape.hpp"

namespace lockstep::data {

/// Labelled images in memory: images (size, channels, height, width) uint8, labels (size) in [0,
/// classes).
struct Dataset {
  core::ImageShape image{3, 32, 32};
  std::vector<std::uint8_t> images;
  std::vector<std::uint8_t> labels;
  std::vector<std::string> class_names;

  std::size_t size() const { return labels.size(); }
  std::span<const std::uint8_t> pixels(std::size_t sample) const {
    const auto bytes = static_cast<std::size_t>(image.elements());
    return {images.data() + sample * bytes, bytes};
  }
};

struct TrainingData {
  Dataset train;
  Dataset test;
  std::string origin;  ///< "cifar10:DIR", "synthetic:N": as given
  std::string
      digest;  ///< 16 hexadecimal digits over images and labels; equal on ranks with equal data
};

/// Where the images come from. `train_samples`, `test_samples`: the first so many; 0 means all
/// there are.
struct DataOptions {
  std::string source =
      "synthetic";  ///< "cifar10:DIR" or "synthetic[:N]" (N training images, default 10000)
  std::size_t train_samples = 0;
  std::size_t test_samples = 0;
  std::uint64_t seed = 1;                     ///< of the synthetic set
  core::ProgressMonitor* progress = nullptr;  ///< informed of each file and each 1,000 images made
};

/// Reads or makes the data. Throws `Error`: usage for a source it does not know, input for files
/// that are missing, truncated, oversized or hold labels out of range, naming the file and what to
/// do.
TrainingData load(const DataOptions& options);

/// The number of training and test images that `load` would give, without reading them. The same
/// errors for missing files and wrong sizes.
struct DataSizes {
  std::size_t train = 0;
  std::size_t test = 0;
  core::ImageShape image{3, 32, 32};
  std::int64_t classes = 10;
};
DataSizes sizes(const DataOptions& options);

}  // namespace lockstep::data
