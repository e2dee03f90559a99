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

/// Brings batches into a plan: from the host, image by image, or, of a data set that the device
/// keeps, only which images and how they are cropped.
class ImageUpload {
 public:
  ImageUpload(const Context& context, core::ImageShape image);

  /// `images` (n, channels, height, width), `labels` (n), n <= the batch; normalised into `map`,
  /// whose channels may be padded.
  DeviceLabels run(std::span<const std::uint8_t> images, std::span<const std::int32_t> labels,
                   const FeatureMap& map);

  void keep(std::span<const std::uint8_t> images, std::span<const std::uint8_t> labels);
  std::size_t kept() const { return kept_labels_.bytes() / sizeof(std::int32_t); }  ///< images
  DeviceLabels run_kept(std::span<const std::int32_t> samples,
                        std::span<const core::CropFlip> crops, const FeatureMap& map);

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
  core::Buffer numbers_;  ///< labels or samples of the batch, where a recorded step finds them
  core::Buffer kept_images_, kept_labels_;
};

}  // namespace lockstep::backend::cuda
