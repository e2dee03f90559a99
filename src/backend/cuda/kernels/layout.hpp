// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Conversions between the layout of the feature maps, channels last, and others: uint8 images to
// normalised activations, with the crop and flip of data augmentation, and feature maps (images,
// pixels, channels) from and to float32 features (images, channels, pixels), the order of PyTorch's
// flatten.

#include "lockstep/core/image.hpp"
#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Computes y (images, height, width, padded_channels) from `pixels` (stored images, channels,
/// height, width): y[i, r, c, k] = (pixel / 255 - mean[k]) / deviation[k]. Padding channels are set
/// to 0. Each kernel index processes one pixel.
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
    with_channel_width<T>(padded_channels, [&](auto lanes) { normalise<lanes>(index); });
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

/// Returns the index in the channels-last map of the feature `index`.
LOCKSTEP_HOST_DEVICE inline std::int64_t map_index_of_feature(std::int64_t index,
                                                              std::int64_t pixels,
                                                              std::int64_t channels) {
  const Division row = divide(index, pixels);  // row: (image, channel)
  const Division image = divide(row.quotient, channels);
  return (image.quotient * pixels + row.remainder) * channels + image.remainder;
}

/// Memory traffic: reads x (uncoalesced); writes y.
template <class T>
struct FlattenForward {
  const T* x;
  float* y;
  std::int64_t images, pixels, channels;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return images * pixels * channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    y[index] = widen(x[map_index_of_feature(index, pixels, channels)]);
  }
};

/// Memory traffic: reads dy; writes dx.
template <class T>
struct FlattenBackward {
  const float* dy;
  T* dx;
  std::int64_t images, pixels, channels;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return images * pixels * channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    narrow(dy[index], dx[map_index_of_feature(index, pixels, channels)]);
  }
};

}  // namespace lockstep::backend::cuda::kernels
