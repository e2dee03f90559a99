// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/image.hpp"
#include "lockstep/core/named_value.hpp"
#include "lockstep/core/progress.hpp"

namespace lockstep::data {

enum class Augmentation {
  none,
  crop_flip,  ///< pad by 4 zeros, crop at a random position, flip horizontally with probability 1/2
};
std::span<const core::NamedValue<Augmentation>> named_values(Augmentation);

/// Handling of an incomplete last global batch.
enum class LastBatch {
  drop,  ///< leave it out
  pad,   ///< fill it with samples from the beginning of the epoch's permutation
};
std::span<const core::NamedValue<LastBatch>> named_values(LastBatch);

/// Memory in which the training images are stored if a GPU trains.
enum class DataResidency {
  host,    ///< host memory: batches are prepared there and copied to the device
  device,  ///< device memory: all images are copied once, and batches are prepared there
};
std::span<const core::NamedValue<DataResidency>> named_values(DataResidency);

/// Selection of a dataset, and how its batches are prepared.
struct DataOptions {
  std::string source = "synthetic";  ///< in one of the forms that `source_syntaxes` returns
  std::int64_t train_samples = 0;    ///< number of training images, from the first; 0 for all
  std::int64_t test_samples = 0;     ///< number of test images, from the first; 0 for all
  Augmentation augmentation = Augmentation::crop_flip;
  LastBatch last_batch = LastBatch::drop;
  int loader_threads = 2;  ///< threads that prepare batches; 0: `DataLoader::next` prepares them
  DataResidency residency = DataResidency::host;
  std::uint64_t seed = 1;  ///< seed of the synthetic dataset and of the augmentation
  core::ProgressMonitor* progress = nullptr;  ///< notified of each file or 1,000 generated images
};

// Upper limits of datasets; a larger number is probably a mistake.
inline constexpr std::int64_t most_images = 1'000'000;
inline constexpr std::int32_t most_classes = 1'000'000;

/// Properties that the training and the test images of a dataset share.
struct DatasetInfo {
  std::string name;  ///< as in `DataOptions::source`, for example "cifar10"
  core::ImageShape image{};
  std::int64_t classes = 0;
  core::Normalisation normalisation{};
  std::string warning{};  ///< about the files, for example that some are missing; empty: none
};

/// Images (size, channels, height, width) and labels (size).
struct LabelledImages {
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
};

/// The training images or the test images of a dataset, in host memory. They do not change, so
/// several threads can read them.
class Dataset {
 public:
  /// Throws `Error` (internal) if there is not one image per label or a label is out of range.
  Dataset(DatasetInfo info, LabelledImages content);

  const DatasetInfo& info() const { return info_; }
  /// Returns the number of images.
  std::size_t size() const { return content_.labels.size(); }
  std::span<const std::int32_t> labels() const { return content_.labels; }
  /// Returns the pixels of all images (size, channels, height, width).
  std::span<const std::uint8_t> pixels() const { return content_.images; }
  /// Returns the pixels of image `sample` (channels, height, width).
  std::span<const std::uint8_t> image(std::size_t sample) const {
    return pixels().subspan(sample * image_bytes(), image_bytes());
  }
  /// Returns the size of an image in bytes.
  std::size_t image_bytes() const { return static_cast<std::size_t>(info_.image.elements()); }

 private:
  DatasetInfo info_;
  LabelledImages content_;
};

/// Training and test images of a dataset.
struct TrainingData {
  std::unique_ptr<const Dataset> train;
  std::unique_ptr<const Dataset> test;
  /// Hash of all images and labels, 16 hexadecimal digits; equal on ranks that have equal data.
  std::string digest;
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
