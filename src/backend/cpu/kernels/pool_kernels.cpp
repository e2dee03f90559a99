// SPDX-License-Identifier: BSD-3-Clause
#include "pool_kernels.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "division.hpp"
#include "vectors.hpp"

namespace lockstep::backend::cpu {

using core::BFloat16;

namespace {

/// Calls work(first lane, count) for groups of lanes. The count is a constant, because compilers
/// vectorise loops of constant length best. `#pragma omp simd` in these loops keeps GCC 12 from
/// unrolling them before it could vectorise them.
template <class Work>
LOCKSTEP_INLINE void for_each_group(std::int64_t lanes, Work&& work) {
  std::int64_t lane = 0;
  for (; lane + 64 <= lanes; lane += 64) work(lane, std::integral_constant<int, 64>{});
  for (; lane + 16 <= lanes; lane += 16) work(lane, std::integral_constant<int, 16>{});
  for (; lane + 8 <= lanes; lane += 8) work(lane, std::integral_constant<int, 8>{});
  for (; lane < lanes; ++lane) work(lane, std::integral_constant<int, 1>{});
}

/// The part of a window that is in the input: rows and columns of the window, and the index in the
/// plane that its first row and column would have.
struct Window {
  Range rows, columns;
  std::int64_t origin;
};

LOCKSTEP_INLINE Window window_at(const PoolWindows& windows, std::int64_t row,
                                 std::int64_t column) {
  const std::int64_t y = row * windows.stride - windows.padding;
  const std::int64_t x = column * windows.stride - windows.padding;
  return {{std::max<std::int64_t>(0, -y), std::min(windows.kernel, windows.height - y)},
          {std::max<std::int64_t>(0, -x), std::min(windows.kernel, windows.width - x)},
          y * windows.width + x};
}

/// Calls work(index of the pixel in the plane, place in the window) for each pixel of a window.
template <class Work>
LOCKSTEP_INLINE void for_each_pixel(const PoolWindows& windows, const Window& window, Work&& work) {
  for (std::int64_t i = window.rows.first; i < window.rows.last; ++i) {
    for (std::int64_t j = window.columns.first; j < window.columns.last; ++j)
      work(window.origin + i * windows.width + j,
           static_cast<std::int32_t>(i * windows.kernel + j));
  }
}

/// Fetches `Count` lanes of the pixel that is `distance` elements further, in the next row.
template <int Count, class T>
LOCKSTEP_INLINE void prefetch_row(const T* pixel, std::int64_t distance) {
  constexpr std::int64_t line = 64 / sizeof(T);
  for (std::int64_t i = 0; i < Count; i += line)
    prefetch_ahead(pixel, (distance + i) * std::int64_t{sizeof(T)});
}

/// Stores a value that the type represents exactly, without rounding.
LOCKSTEP_INLINE void store_exact(float value, float& to) { to = value; }
LOCKSTEP_INLINE void store_exact(float value, BFloat16& to) {
  to.bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

template <int Count, class T>
LOCKSTEP_INLINE void max_of(const T* plane, const PoolWindows& windows, const Window& window,
                            std::int64_t stride, T* maxima, std::uint8_t* places) {
  float best[Count];
  std::int32_t place[Count];
  const auto first =
      static_cast<std::int32_t>(window.rows.first * windows.kernel + window.columns.first);
  const std::int64_t next_row = windows.stride * windows.width * stride;
#pragma omp simd
  for (int i = 0; i < Count; ++i) {
    best[i] = -std::numeric_limits<float>::infinity();
    place[i] = first;
  }
  for_each_pixel(windows, window, [&](std::int64_t pixel, std::int32_t here) {
    const T* const x = plane + pixel * stride;
    prefetch_row<Count>(x, next_row);
#pragma omp simd
    for (int i = 0; i < Count; ++i) {
      const float value = load(x[i]);
      const bool is_larger = (value > best[i]) | (value != value);
      place[i] = is_larger ? here : place[i];
      best[i] = is_larger ? value : best[i];
    }
  });
#pragma omp simd
  for (int i = 0; i < Count; ++i) {
    store_exact(best[i], maxima[i]);
    places[i] = static_cast<std::uint8_t>(place[i]);
  }
}

/// Returns the value, or 0 if the condition is false. Compilers vectorise it for both types.
LOCKSTEP_INLINE float value_if(bool condition, float value) { return condition ? value : 0.0F; }
LOCKSTEP_INLINE BFloat16 value_if(bool condition, BFloat16 value) {
  return {condition ? value.bits : std::uint16_t{0}};
}

template <int Count, class T>
LOCKSTEP_INLINE void add_at(const T* gradient, const std::uint8_t* places,
                            const PoolWindows& windows, const Window& window, std::int64_t stride,
                            T* plane) {
  const bool is_only_window = windows.partition();
  const std::int64_t next_row = windows.stride * windows.width * stride;
  for_each_pixel(windows, window, [&](std::int64_t pixel, std::int32_t here) {
    T* const to = plane + pixel * stride;
    prefetch_row<Count>(to, next_row);
    if (is_only_window) {
#pragma omp simd
      for (int i = 0; i < Count; ++i) to[i] = value_if(places[i] == here, gradient[i]);
    } else {
#pragma omp simd
      for (int i = 0; i < Count; ++i)
        store(load(to[i]) + (places[i] == here ? load(gradient[i]) : 0.0F), to[i]);
    }
  });
}

/// Calls work(window, index of the output pixel in its row, first lane, number of lanes).
template <class Work>
LOCKSTEP_INLINE void for_each_window(const PoolWindows& windows, std::int64_t row, LaneRange lanes,
                                     Work&& work) {
  for (std::int64_t column = 0; column < windows.out_width; ++column) {
    const Window window = window_at(windows, row, column);
    for_each_group(lanes.count, [&](std::int64_t lane, auto count) {
      work(window, column * lanes.stride, lane, count);
    });
  }
}

template <class T>
LOCKSTEP_INLINE void max_of_windows(const T* plane, const PoolWindows& windows, std::int64_t row,
                                    LaneRange lanes, T* maxima, std::uint8_t* places) {
  for_each_window(windows, row, lanes,
                  [&](const Window& window, std::int64_t at, std::int64_t lane, auto count) {
                    max_of<count>(plane + lane, windows, window, lanes.stride, maxima + at + lane,
                                  places + at + lane);
                  });
}

template <class T>
LOCKSTEP_INLINE void add_to_windows(const T* gradient, const std::uint8_t* places,
                                    const PoolWindows& windows, std::int64_t row, LaneRange lanes,
                                    T* plane) {
  for_each_window(windows, row, lanes,
                  [&](const Window& window, std::int64_t at, std::int64_t lane, auto count) {
                    add_at<count>(gradient + at + lane, places + at + lane, windows, window,
                                  lanes.stride, plane + lane);
                  });
}

}  // namespace

LOCKSTEP_CLONES void max_of_row(const float* plane, const PoolWindows& windows, std::int64_t row,
                                LaneRange lanes, float* maxima, std::uint8_t* places) {
  max_of_windows(plane, windows, row, lanes, maxima, places);
}
LOCKSTEP_CLONES void max_of_row(const BFloat16* plane, const PoolWindows& windows, std::int64_t row,
                                LaneRange lanes, BFloat16* maxima, std::uint8_t* places) {
  max_of_windows(plane, windows, row, lanes, maxima, places);
}

LOCKSTEP_CLONES void add_at_places(const float* gradient, const std::uint8_t* places,
                                   const PoolWindows& windows, std::int64_t row, LaneRange lanes,
                                   float* plane) {
  add_to_windows(gradient, places, windows, row, lanes, plane);
}
LOCKSTEP_CLONES void add_at_places(const BFloat16* gradient, const std::uint8_t* places,
                                   const PoolWindows& windows, std::int64_t row, LaneRange lanes,
                                   BFloat16* plane) {
  add_to_windows(gradient, places, windows, row, lanes, plane);
}

}  // namespace lockstep::backend::cpu
