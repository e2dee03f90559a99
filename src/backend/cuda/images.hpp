#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "../feature_map.hpp"
#include "context.hpp"
#include "lockstep/core/crop_flip.hpp"
#include "operations.hpp"
#include "staging.hpp"

namespace lockstep::backend::cuda {

/// Uploads batches to a plan: either images and labels from the host, or, if the dataset is in
/// device memory, only the indices of the samples and their crops.
class ImageUpload {
 public:
  ImageUpload(const Context& context, core::ImageShape image);

  /// Uploads a batch from the host and normalises it into `map`, whose channels may be padded.
  /// `images` (n, channels, height, width), `labels` (n), n <= batch size. Enqueues the work; waits
  /// only for the copy of an earlier batch. Returns the labels in device memory.
  DeviceLabels run(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels,
                   const FeatureMap& map);

  /// Copies a dataset to device memory and waits for the copy. `labels` (size); `read` returns the
  /// images.
  void load_dataset(std::span<const std::int32_t> labels, const ImageReader& read);
  /// Returns the number of images of the dataset in device memory.
  std::size_t dataset_size() const { return dataset_labels_.bytes() / sizeof(std::int32_t); }
  /// As `run`, for images of the dataset in device memory. `samples` (n): their indices; `crops`
  /// (n).
  DeviceLabels run_samples(std::span<const std::int32_t> samples,
                           std::span<const core::CropFlip> crops, const FeatureMap& map);

  /// Returns the device memory of an upload without a dataset, in bytes.
  static std::size_t device_bytes(std::int64_t batch, core::ImageShape image);

 private:
  struct Batch {
    const std::byte* pixels;
    const std::int32_t* source;
    const core::CropFlip* crops;
    std::int64_t images;
  };
  void normalise(const Batch& batch, const FeatureMap& map) const;

  const Context& context_;
  core::ImageShape image_;
  Staging staging_;
  /// Labels or sample indices of the batch, at the fixed address that a captured graph reads.
  core::Buffer numbers_;
  core::Buffer dataset_images_, dataset_labels_;
};

}  // namespace lockstep::backend::cuda
