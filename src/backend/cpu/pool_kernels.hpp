#pragma once

#include <cstdint>
#include <span>

#include "lockstep/core/data_type.hpp"

// The inner loops of pooling. Each processes the lanes of one plane of a map (see feature_map.hpp),
// one output pixel at a time. T is float or BFloat16; arithmetic is float32.

namespace lockstep::backend::cpu {

/// A pixel of a window: its index in the plane and its position in the window.
struct WindowPixel {
  std::int64_t pixel = 0;
  std::uint8_t place = 0;
};

/// Writes the maximum of each lane over the window, which must not be empty, and the position of
/// the first maximum. A NaN is larger than every number, and the last NaN counts (as in PyTorch).
void max_of_window(const float* plane, std::span<const WindowPixel> window, std::int64_t lanes,
                   float* maxima, std::uint8_t* places);
void max_of_window(const core::BFloat16* plane, std::span<const WindowPixel> window,
                   std::int64_t lanes, core::BFloat16* maxima, std::uint8_t* places);

/// Adds the gradient of each lane to the pixel of the window that `places` selects.
void add_at_places(const float* gradient, const std::uint8_t* places,
                   std::span<const WindowPixel> window, std::int64_t lanes, float* plane);
void add_at_places(const core::BFloat16* gradient, const std::uint8_t* places,
                   std::span<const WindowPixel> window, std::int64_t lanes, core::BFloat16* plane);

/// Writes the mean of each of the first `channels` lanes over all pixels.
void mean_of_pixels(const float* plane, std::int64_t pixels, std::int64_t lanes,
                    std::int64_t channels, float* means);
void mean_of_pixels(const core::BFloat16* plane, std::int64_t pixels, std::int64_t lanes,
                    std::int64_t channels, float* means);

/// Writes scale * values[lane] to every pixel in the first `channels` lanes, and 0 to the other
/// lanes.
void fill_pixels(const float* values, float scale, std::int64_t pixels, std::int64_t lanes,
                 std::int64_t channels, float* plane);
void fill_pixels(const float* values, float scale, std::int64_t pixels, std::int64_t lanes,
                 std::int64_t channels, core::BFloat16* plane);

}  // namespace lockstep::backend::cpu
