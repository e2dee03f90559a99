// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Flattening of channels-last feature maps (images, pixels, channels) to float32 features (images,
// channels, pixels), the order of PyTorch's flatten.

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

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
