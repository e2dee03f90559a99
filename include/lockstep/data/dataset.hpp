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

/// Labelled images in memory: `images` (size, channels, height, width), `labels` (size) in [0,
/// classes).
struct Dataset {
  core::ImageShape image{3, 32, 32};
  std::vector<std::uint8_t> images;
  std::vector<std::uint8_t> labels;
  std::vector<std::string> class_names;

  /// Returns the number of images.
  std::size_t size() const { return labels.size(); }
  /// Returns a view of image `sample`: (channels, height, width).
  std::span<const std::uint8_t> pixels(std::size_t sample) const {
    const auto bytes = static_cast<std::size_t>(image.elements());
    return {images.data() + sample * bytes, bytes};
  }
};

/// Training and test images of a data set.
struct TrainingData {
  Dataset train;
  Dataset test;
  std::string origin;  ///< value of `DataOptions::source`
  /// Hash of all images and labels, 16 hexadecimal digits; equal on ranks that have equal data.
  std::string digest;
};

/// Selection of a data set.
struct DataOptions {
  /// "cifar10:DIR" or "synthetic[:N]" (N training images, default 10000).
  std::string source = "synthetic";
  std::size_t train_samples = 0;  ///< number of training images, from the first; 0 for all
  std::size_t test_samples = 0;   ///< number of test images, from the first; 0 for all
  std::uint64_t seed = 1;         ///< seed of the synthetic data set
  core::ProgressMonitor* progress = nullptr;  ///< notified of each file or 1,000 generated images
};

/// Reads or generates the data set. Throws `Error`: usage if the source is unknown or has fewer
/// images than requested; input if a file is missing, truncated, oversized or contains labels out
/// of range (the message names the file and the remedy).
TrainingData load(const DataOptions& options);

/// Numbers of training and test images, shape of the images and number of classes.
struct DataSizes {
  std::size_t train = 0;
  std::size_t test = 0;
  core::ImageShape image{3, 32, 32};
  std::int64_t classes = 10;
};
/// Returns the sizes of the data set that `load` would return, without reading the images. Throws
/// the same errors as `load` for invalid options, missing files and wrong file sizes.
DataSizes sizes(const DataOptions& options);

}  // namespace lockstep::data
