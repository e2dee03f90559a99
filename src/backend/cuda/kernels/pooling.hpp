// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Pooling of NHWC feature maps.
//   average: y[n, c] = sum over pixels of x[n, h, w, c] / (height width)
//   maximum: y[n, p, q, c] = the largest x in the kernel x kernel window that begins at row p
//   stride - padding and column q stride - padding. Positions outside the map are ignored. The
//   gradient goes to the position of the maximum, the first one in row-major order if several are
//   equal. The backward pass computes this position again, so no index is stored.

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Computes y (images, channels) in float32 from x (images, pixels, channels).
/// Memory traffic: reads x; writes y.
template <class T>
struct AveragePoolForward {
  const T* x;
  float* y;
  std::int64_t images, pixels, channels;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return images * channels; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const auto [image, channel] = divide(index, channels);
    const T* const from = x + image * pixels * channels + channel;
    float sum = 0;
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) sum += load(from, pixel * channels);
    y[index] = sum / static_cast<float>(pixels);
  }
};

/// Computes dx (images, pixels, channels) from dy (images, channels) in float32.
/// Memory traffic: writes dx; from caches: dy.
template <class T>
struct AveragePoolBackward {
  const float* dy;
  T* dx;
  std::int64_t images, pixels, channels;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const {
    return images * pixels * channel_groups<T>(channels);
  }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    with_channel_width<T>(channels, [&](auto width) { spread<width>(index); });
  }

 private:
  template <int width>
  LOCKSTEP_HOST_DEVICE void spread(std::int64_t index) const {
    const auto [row, group] = divide(index, channels / width);
    const std::int64_t image = divide(row, pixels).quotient;
    float values[width];
    load_table<width>(dy + image * channels + group * width, values);
    for (float& value : values) value /= static_cast<float>(pixels);
    store_pack<width>(dx + index * width, values);
  }
};

/// Sizes of a max-pooling operation.
struct MaxPoolShape {
  std::int64_t images, height, width, channels;  ///< of x
  std::int64_t out_height, out_width;            ///< of y
  std::int64_t kernel, stride, padding;
};

/// Rows (or columns) [begin, end) of x.
struct WindowRange {
  std::int32_t begin, end;
};

LOCKSTEP_HOST_DEVICE inline WindowRange window(const MaxPoolShape& shape, std::int64_t at,
                                               std::int64_t size) {
  const auto begin = static_cast<std::int32_t>(at * shape.stride - shape.padding);
  const auto end = static_cast<std::int32_t>(begin + shape.kernel);
  const auto last = static_cast<std::int32_t>(size);
  return {begin > 0 ? begin : 0, end < last ? end : last};
}

/// The maxima of window (p, q), and the pixels of `plane` (height, width, channels) at which they
/// are.
template <class T, int width>
struct WindowMaximum {
  float largest[width];
  std::int32_t winner[width];

  LOCKSTEP_HOST_DEVICE WindowMaximum(const MaxPoolShape& shape, const T* plane, std::int64_t p,
                                     std::int64_t q) {
    const WindowRange rows = window(shape, p, shape.height);
    const WindowRange columns = window(shape, q, shape.width);
    bool is_first = true;
    for (std::int32_t row = rows.begin; row < rows.end; ++row) {
      for (std::int32_t column = columns.begin; column < columns.end; ++column) {
        const auto pixel = static_cast<std::int32_t>(row * shape.width + column);
        const auto values = load_pack<width>(plane + pixel * shape.channels);
        for (int lane = 0; lane < width; ++lane) {
          const bool is_nan = values[lane] != values[lane];  // larger than every number
          if (!is_first && !is_nan && !(values[lane] > largest[lane])) continue;
          largest[lane] = values[lane];
          winner[lane] = pixel;
        }
        is_first = false;
      }
    }
  }
};

/// Computes y (images, out_height, out_width, channels) from x (images, height, width, channels).
/// Memory traffic: reads x (once per window that contains the pixel); writes y.
template <class T>
struct MaxPoolForward {
  const T* x;
  T* y;
  MaxPoolShape shape;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const {
    return shape.images * shape.out_height * shape.out_width * channel_groups<T>(shape.channels);
  }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    with_channel_width<T>(shape.channels, [&](auto width) { pool<width>(index); });
  }

 private:
  template <int width>
  LOCKSTEP_HOST_DEVICE void pool(std::int64_t index) const {
    const auto [pixel, group] = divide(index, shape.channels / width);
    const auto [line, q] = divide(pixel, shape.out_width);
    const auto [image, p] = divide(line, shape.out_height);
    const T* const plane = x + image * shape.height * shape.width * shape.channels + group * width;
    const WindowMaximum<T, width> maximum(shape, plane, p, q);
    store_pack<width>(y + index * width, maximum.largest);
  }
};

/// Computes dx (images, height, width, channels) from dy (images, out_height, out_width, channels)
/// and x. Each kernel index gathers the gradients from all windows that contain its pixel.
/// Memory traffic: reads x (once per pair of a window that contains the pixel and a pixel of the
/// window), dy (once per pixel of its window); writes dx.
template <class T>
struct MaxPoolBackward {
  static constexpr int resident_blocks = 3;

  const T* x;
  const T* dy;
  T* dx;
  MaxPoolShape shape;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const {
    return shape.images * shape.height * shape.width * channel_groups<T>(shape.channels);
  }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    with_channel_width<T>(shape.channels, [&](auto width) { gather<width>(index); });
  }

 private:
  /// Returns the windows [begin, end) that contain row (or column) `at`.
  LOCKSTEP_HOST_DEVICE WindowRange windows(std::int64_t at, std::int64_t outputs) const {
    const std::int64_t last = divide(at + shape.padding, shape.stride).quotient + 1;
    const std::int64_t before = at + shape.padding - shape.kernel;
    const std::int64_t first = before < 0 ? 0 : divide(before, shape.stride).quotient + 1;
    return {static_cast<std::int32_t>(first),
            static_cast<std::int32_t>(last < outputs ? last : outputs)};
  }

  template <int width>
  LOCKSTEP_HOST_DEVICE void gather(std::int64_t index) const {
    const auto [position, group] = divide(index, shape.channels / width);
    const auto [line, column] = divide(position, shape.width);
    const auto [image, row] = divide(line, shape.height);
    const auto pixel = static_cast<std::int32_t>(row * shape.width + column);
    const T* const plane = x + image * shape.height * shape.width * shape.channels + group * width;
    const T* const gradients =
        dy + image * shape.out_height * shape.out_width * shape.channels + group * width;
    const WindowRange rows = windows(row, shape.out_height);
    const WindowRange columns = windows(column, shape.out_width);
    float sums[width] = {};
    for (std::int32_t p = rows.begin; p < rows.end; ++p) {
      for (std::int32_t q = columns.begin; q < columns.end; ++q) {
        const WindowMaximum<T, width> maximum(shape, plane, p, q);
        const auto values =
            load_pack<width>(gradients + (p * shape.out_width + q) * shape.channels);
        for (int lane = 0; lane < width; ++lane)
          if (maximum.winner[lane] == pixel) sums[lane] += values[lane];
      }
    }
    store_pack<width>(dx + index * width, sums);
  }
};

}  // namespace lockstep::backend::cuda::kernels
