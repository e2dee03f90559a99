// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Access to elements in memory: all kernels compute in float32 and store tensors as float32,
// bfloat16 or float16, unless they state another type.
//
// A group of 16 bytes is accessed with one load or store. The base addresses of tensors and tables
// must be multiples of 16 bytes.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "device.hpp"

namespace lockstep::backend::cuda::kernels {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Activation function fused after an operation.
enum class Activation { none, relu };

LOCKSTEP_HOST_DEVICE inline float activate(float value, Activation activation) {
  // Keeps NaN, so that a diverging run is visible.
  return activation == Activation::relu && value < 0 ? 0.0f : value;
}

template <class T>
LOCKSTEP_HOST_DEVICE float load(const T* from, std::int64_t i) {
  return widen(from[i]);
}

template <class T>
LOCKSTEP_HOST_DEVICE void store(T* to, std::int64_t i, float value) {
  narrow(value, to[i]);
}

/// Number of elements in 16 bytes.
template <class T>
constexpr int lanes_of = 16 / static_cast<int>(sizeof(T));

/// Alignment of `bytes` that are read and written together: they are accessed in groups of 16
/// bytes.
constexpr std::size_t pack_alignment(std::size_t bytes) { return bytes < 16 ? bytes : 16; }

/// `width` consecutive elements, read and written with one access per 16 bytes.
template <class T, int width>
struct alignas(pack_alignment(sizeof(T) * static_cast<std::size_t>(width))) Pack {
  T values[width];

  LOCKSTEP_HOST_DEVICE float operator[](int lane) const { return widen(values[lane]); }
};

template <int width, class T>
LOCKSTEP_HOST_DEVICE Pack<T, width> load_pack(const T* from) {
  require_aligned(from, alignof(Pack<T, width>));
  return *reinterpret_cast<const Pack<T, width>*>(from);
}

template <int width, class T>
LOCKSTEP_HOST_DEVICE void store_pack(T* to, const float (&from)[width]) {
  require_aligned(to, alignof(Pack<T, width>));
  Pack<T, width> pack;
  for (int lane = 0; lane < width; ++lane) narrow(from[lane], pack.values[lane]);
  *reinterpret_cast<Pack<T, width>*>(to) = pack;
}

/// Loads `width` values of a float32 table, e.g. one per channel.
template <int width>
LOCKSTEP_HOST_DEVICE void load_table(const float* from, float (&to)[width]) {
  constexpr int step = width % 4 == 0 ? 4 : 1;
  for (int first = 0; first < width; first += step) {
    const auto pack = load_pack<step>(from + first);
    for (int lane = 0; lane < step; ++lane) to[first + lane] = pack.values[lane];
  }
}

/// Returns the number of channels that a thread processes at once: as many as fit in 16 bytes, or 1
/// if `channels` is not a multiple of that number.
template <class T>
LOCKSTEP_HOST_DEVICE int channel_width(std::int64_t channels) {
  return channels % lanes_of<T> == 0 ? lanes_of<T> : 1;
}

/// Calls `work` with `channel_width<T>(channels)` as a constant.
template <class T, class Work>
LOCKSTEP_HOST_DEVICE void with_channel_width(std::int64_t channels, const Work& work) {
  if (channel_width<T>(channels) > 1) {
    work(std::integral_constant<int, lanes_of<T>>{});
  } else {
    work(std::integral_constant<int, 1>{});
  }
}

/// Returns the number of groups of `channel_width<T>(channels)` channels.
template <class T>
LOCKSTEP_HOST_DEVICE std::int64_t channel_groups(std::int64_t channels) {
  return channels % lanes_of<T> == 0 ? channels / lanes_of<T> : channels;
}

/// Returns whether `width` elements from `index` on exist and can be accessed at once. `count`: the
/// number of elements from `index` on.
template <int width, class Count>
LOCKSTEP_HOST_DEVICE bool is_packed(std::int64_t index, Count count) {
  return count >= width && index % width == 0;
}

/// Reads `width` elements from `index` on; those beyond the first `count` read as 0.
template <int width, class T, class Count>
LOCKSTEP_HOST_DEVICE void load_elements(const T* from, std::int64_t index, Count count,
                                        float (&to)[width]) {
  if (is_packed<width>(index, count)) {
    const auto pack = load_pack<width>(from + index);
    for (int lane = 0; lane < width; ++lane) to[lane] = pack[lane];
  } else {
    for (int lane = 0; lane < width; ++lane)
      to[lane] = lane < count ? load(from, index + lane) : 0.0f;
  }
}

/// Writes the first `count` of `width` elements from `index` on.
template <int width, class T, class Count>
LOCKSTEP_HOST_DEVICE void store_elements(T* to, std::int64_t index, Count count,
                                         const float (&from)[width]) {
  if (is_packed<width>(index, count)) {
    store_pack(to + index, from);
  } else {
    for (int lane = 0; lane < width; ++lane)
      if (lane < count) store(to, index + lane, from[lane]);
  }
}

/// Returns the number of 16-byte groups that hold `elements`.
template <class T>
LOCKSTEP_HOST_DEVICE std::int64_t lane_groups(std::int64_t elements) {
  return (elements + lanes_of<T> - 1) / lanes_of<T>;
}

struct Division {
  std::int64_t quotient, remainder;
};

/// Returns quotient and remainder of non-negative numbers. Divides in 32 bits if both fit, and
/// otherwise bit by bit: the device has no instruction for 64-bit division, and the function that
/// the compiler calls instead makes kernels use more registers and spill some of them.
LOCKSTEP_HOST_DEVICE inline Division divide(std::int64_t value, std::int64_t by) {
  if (((value | by) >> 32) == 0) {
    const auto value32 = static_cast<std::uint32_t>(value);
    const auto by32 = static_cast<std::uint32_t>(by);
    const std::uint32_t quotient = value32 / by32;
    return {quotient, value32 - quotient * by32};
  }
  auto divisor = static_cast<std::uint64_t>(by);
  auto remainder = static_cast<std::uint64_t>(value);
  std::int64_t quotient = 0;
  int bits = 1;  // of the quotient; the first may be 0
  for (; divisor << 1 <= remainder; divisor <<= 1) ++bits;
  for (; bits > 0; --bits) {
    quotient <<= 1;
    if (remainder >= divisor) {
      remainder -= divisor;
      quotient |= 1;
    }
    divisor >>= 1;
  }
  return {quotient, static_cast<std::int64_t>(remainder)};
}

}  // namespace lockstep::backend::cuda::kernels
