// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::core {

/// Shape of the feature map of one image (C x H x W), without the batch dimension.
struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  std::int64_t pixels() const { return height * width; }
  std::int64_t elements() const { return channels * height * width; }
  bool is_empty() const { return channels <= 0 || height <= 0 || width <= 0; }
  bool operator==(const ImageShape&) const = default;
};

/// Coefficients of the image normalisation per channel: normalised = (pixel / 255 - mean) /
/// standard_deviation. Channels beyond the third use the values of the third. The defaults only
/// scale the pixels to [0, 1].
struct Normalisation {
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> standard_deviation{1, 1, 1};
};

/// Random crop and horizontal flip of one image. The crop has the size of the image; its top-left
/// corner is `dy` rows below and `dx` columns to the right of the image's. Pixels outside the image
/// are black. `flip`: 1 if the crop is then mirrored left to right, else 0.
struct CropFlip {
  std::int8_t dy = 0, dx = 0;
  std::uint8_t flip = 0;
};

}  // namespace lockstep::core
