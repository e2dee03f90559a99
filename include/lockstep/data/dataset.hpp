#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/normalisation.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/core/shape.hpp"

namespace lockstep::data {

// Upper limits of datasets; a larger number is probably a mistake.
inline constexpr std::int64_t most_images = 1'000'000;
inline constexpr std::int32_t most_classes = 1'000'000;

/// Properties that the training and the test images of a dataset share.
struct DatasetInfo {
  std::string name;  ///< as in `DataOptions::source`, for example "cifar10"
  core::ImageShape image{};
  std::int64_t classes = 0;
  std::vector<std::string> class_names{};  ///< in the order of the labels; empty if unknown
  core::Normalisation normalisation{};
  std::string warning{};  ///< about the files, for example that some are missing; empty: none
};

/// Labelled images: the training images or the test images of a dataset. All functions may be
/// called by several threads at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const DatasetInfo& info() const = 0;

  /// Returns the number of images.
  virtual std::size_t size() const = 0;

  /// Returns the label of image `sample`, in [0, classes).
  virtual std::int32_t label(std::size_t sample) const = 0;

  /// Returns the pixels of image `sample`: (channels, height, width). The result is a view either
  /// of memory of the dataset or of `buffer`, which must have the size of an image. Throws `Error`
  /// (input) if the image cannot be read.
  virtual std::span<const std::uint8_t> read_image(std::size_t sample,
                                                   std::span<std::uint8_t> buffer) const = 0;

  /// Returns the size of an image in bytes.
  std::size_t image_bytes() const { return static_cast<std::size_t>(info().image.elements()); }

  /// Copies the images `first`, `first + 1`, ... to `images` (n, channels, height, width). Throws
  /// `Error` like `read_image`.
  void copy_images(std::size_t first, std::span<std::uint8_t> images) const;
};

/// Training and test images of a dataset.
struct TrainingData {
  std::unique_ptr<const Dataset> train;
  std::unique_ptr<const Dataset> test;
  /// Hash of all images and labels, 16 hexadecimal digits; equal on ranks that have equal data.
  std::string digest;
};

/// Selection of a dataset.
struct DataOptions {
  std::string source = "synthetic";  ///< in one of the forms that `source_syntaxes` returns
  std::size_t train_samples = 0;     ///< number of training images, from the first; 0 for all
  std::size_t test_samples = 0;      ///< number of test images, from the first; 0 for all
  std::uint64_t seed = 1;            ///< seed of the synthetic dataset
  core::ProgressMonitor* progress = nullptr;  ///< notified of each file or 1,000 generated images
};

/// Returns the forms of `DataOptions::source` and their meaning, one line per dataset, for
/// `--help`.
std::vector<std::string> source_syntaxes();

/// Reads or generates the dataset. Throws `Error`: usage if the source is unknown or has fewer
/// images than requested; input if a file is missing, truncated, oversized or contains labels out
/// of range (the message names the file and the remedy).
TrainingData load(const DataOptions& options);

/// Properties of a dataset that are known without reading its images.
struct DataSizes {
  DatasetInfo info;
  std::size_t train = 0;           ///< number of training images
  std::size_t test = 0;            ///< number of test images
  std::uint64_t memory_bytes = 0;  ///< host memory that the loaded dataset needs
};
/// Returns the sizes of the dataset that `load` would return, without reading the images. Throws
/// the same errors as `load` for invalid options, missing files and wrong file sizes.
DataSizes sizes(const DataOptions& options);

}  // namespace lockstep::data
