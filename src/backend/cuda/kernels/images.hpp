// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Converts uint8 images to normalised activations and applies the crop and flip of data
// augmentation.
//   y[i, r, c, k] = (pixel / 255 - mean[k]) / deviation[k]
// Reads `channels` bytes and writes `padded_channels` elements per pixel. Each kernel index
// processes one pixel.

#include "lockstep/core/image.hpp"
#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Computes y (images, height, width, padded_channels) from `pixels` (stored images, channels,
/// height, width). Padding channels are set to 0.
/// Memory traffic: reads pixels; writes y; from caches: source, crops.
template <class T>
struct NormaliseImages {
  const std::uint8_t* pixels;
  const std::int32_t* source;   ///< (images) index of the stored image; null: i for image i
  const core::CropFlip* crops;  ///< (images); null: no crop and no flip
  T* y;
  std::int64_t images, channels, height, width, padded_channels;
  float mean[3], deviation[3];  ///< channels beyond the third repeat the last values

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return images * height * width; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    if (channel_width<T>(padded_channels) > 1) {
      normalise<lanes_of<T>>(index);
    } else {
      normalise<1>(index);
    }
  }

 private:
  /// Selects without an index that is known only at run time, because registers cannot be indexed.
  LOCKSTEP_HOST_DEVICE static float of_channel(const float (&values)[3], std::int64_t channel) {
    return channel == 0 ? values[0] : channel == 1 ? values[1] : values[2];
  }

  template <int lanes>
  LOCKSTEP_HOST_DEVICE void normalise(std::int64_t index) const {
    const auto [line, column] = divide(index, width);
    const auto [image, row] = divide(line, height);
    std::int64_t from_row = row, from_column = column;
    if (crops != nullptr) {
      const core::CropFlip crop = crops[image];
      from_row = row + crop.dy;
      from_column = (crop.flip != 0 ? width - 1 - column : column) + crop.dx;
    }
    const bool is_inside =
        from_row >= 0 && from_row < height && from_column >= 0 && from_column < width;
    const std::int64_t stored = source != nullptr ? source[image] : image;
    const std::uint8_t* const from =
        pixels + (stored * channels * height + from_row) * width + from_column;
    for (std::int64_t first = 0; first < padded_channels; first += lanes) {
      float values[lanes];
      for (int lane = 0; lane < lanes; ++lane) {
        const std::int64_t channel = first + lane;
        values[lane] = 0;
        if (channel >= channels) continue;
        const float byte = is_inside ? static_cast<float>(from[channel * height * width]) : 0.0f;
        values[lane] = (byte / 255.0f - of_channel(mean, channel)) / of_channel(deviation, channel);
      }
      store_pack<lanes>(y + index * padded_channels + first, values);
    }
  }
};

}  // namespace lockstep::backend::cuda::kernels
