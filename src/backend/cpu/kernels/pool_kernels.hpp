// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "lockstep/core/data_type.hpp"

// The inner loops of max-pooling. Each processes consecutive lanes of one plane of a map (see
// feature_map.hpp). The arithmetic is float32.

namespace lockstep::backend::cpu {

/// The lanes that a kernel processes. The addresses that it gets are those of the first of them.
struct LaneRange {
  std::int64_t stride = 0;  ///< from one pixel to the next
  std::int64_t count = 0;   ///< at most `stride`
};

/// Windows of max-pooling and the planes of its input and output.
struct PoolWindows {
  std::int64_t kernel = 0, stride = 0, padding = 0;
  std::int64_t height = 0, width = 0;  ///< of the input
  std::int64_t out_width = 0;

  /// Returns true if each input pixel is in exactly one window.
  bool partition() const {
    return kernel == stride && padding == 0 && height % stride == 0 && width % stride == 0;
  }
};

/// Writes, for each output pixel of one row and each lane, the maximum over the part of the window
/// that is in the input, which must not be empty, and the place of the first maximum in the window:
/// row * kernel + column. A NaN is larger than every number, and the last NaN counts (as in
/// PyTorch). `maxima` and `places`: of the first pixel of the row.
void max_of_row(const float* plane, const PoolWindows& windows, std::int64_t row, LaneRange lanes,
                float* maxima, std::uint8_t* places);
void max_of_row(const core::BFloat16* plane, const PoolWindows& windows, std::int64_t row,
                LaneRange lanes, core::BFloat16* maxima, std::uint8_t* places);

/// Adds the gradient of each output pixel of one row to the input pixel that `places` selects. If
/// the windows are a partition of the plane, its previous values are not read, and the gradient of
/// the pixels that are not selected is set to 0.
void add_at_places(const float* gradient, const std::uint8_t* places, const PoolWindows& windows,
                   std::int64_t row, LaneRange lanes, float* plane);
void add_at_places(const core::BFloat16* gradient, const std::uint8_t* places,
                   const PoolWindows& windows, std::int64_t row, LaneRange lanes,
                   core::BFloat16* plane);

}  // namespace lockstep::backend::cpu
