#include "pool_kernels.hpp"

#include <algorithm>
#include <limits>

#include "vectors.hpp"

namespace lockstep::backend::cpu {

using core::BFloat16;

namespace {

constexpr std::int64_t chunk = 64;

/// Calls work(first lane, count) for each chunk. The count is a constant except for the last chunk,
/// because compilers vectorise loops of constant length best.
template <class Work>
LOCKSTEP_INLINE void for_each_chunk(std::int64_t lanes, Work&& work) {
  std::int64_t lane = 0;
  for (; lane + chunk <= lanes; lane += chunk) work(lane, chunk);
  if (lane < lanes) work(lane, lanes - lane);
}

/// Computes the maximum of one lane by PyTorch's rule: a NaN is larger than every number, and the
/// last NaN counts.
template <class T>
void max_of_lane(const T* plane, std::span<const WindowPixel> window, std::int64_t lanes,
                 T& maximum, std::uint8_t& place) {
  float best = load(plane[window.front().pixel * lanes]);
  place = window.front().place;
  for (const WindowPixel& here : window.subspan(1)) {
    const float value = load(plane[here.pixel * lanes]);
    if (value > best || value != value) {
      best = value;
      place = here.place;
    }
  }
  store(best, maximum);
}

template <class T>
LOCKSTEP_INLINE void max_of(const T* plane, std::span<const WindowPixel> window, std::int64_t lanes,
                            T* maxima, std::uint8_t* places) {
  for_each_chunk(lanes, [&](std::int64_t lane, std::int64_t count) {
    float best[chunk];
    std::int32_t place[chunk];
    for (std::int64_t i = 0; i < count; ++i) {
      best[i] = -std::numeric_limits<float>::infinity();
      place[i] = window.front().place;
    }
    std::int32_t nans = 0;
    for (const WindowPixel& here : window) {
      const T* x = plane + here.pixel * lanes + lane;
      const std::int32_t at = here.place;
      for (std::int64_t i = 0; i < count; ++i) {
        const float value = load(x[i]);
        nans += value != value ? 1 : 0;
        const bool is_larger = value > best[i];
        place[i] = is_larger ? at : place[i];
        best[i] = is_larger ? value : best[i];
      }
    }
    for (std::int64_t i = 0; i < count; ++i) store(best[i], maxima[lane + i]);
    for (std::int64_t i = 0; i < count; ++i) places[lane + i] = static_cast<std::uint8_t>(place[i]);
    if (nans > 0) {  // rare; with a test for NaN in the loop above, GCC 12 does not vectorise it
      for (std::int64_t i = lane; i < lane + count; ++i)
        max_of_lane(plane + i, window, lanes, maxima[i], places[i]);
    }
  });
}

template <class T>
LOCKSTEP_INLINE void add_at(const T* gradient, const std::uint8_t* places,
                            std::span<const WindowPixel> window, std::int64_t lanes, T* plane) {
  for_each_chunk(lanes, [&](std::int64_t lane, std::int64_t count) {
    float dy[chunk];
    for (std::int64_t i = 0; i < count; ++i) dy[i] = load(gradient[lane + i]);
    for (const WindowPixel& here : window) {
      T* to = plane + here.pixel * lanes + lane;
      const std::uint8_t place = here.place;
      for (std::int64_t i = 0; i < count; ++i)
        store(load(to[i]) + (places[lane + i] == place ? dy[i] : 0.0F), to[i]);
    }
  });
}

template <class T>
LOCKSTEP_INLINE void mean_of(const T* plane, std::int64_t pixels, std::int64_t lanes,
                             std::int64_t channels, float* means) {
  const float share = 1.0F / static_cast<float>(pixels);
  for_each_chunk(channels, [&](std::int64_t lane, std::int64_t count) {
    float sum[chunk] = {};
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      const T* x = plane + pixel * lanes + lane;
      for (std::int64_t i = 0; i < count; ++i) sum[i] += load(x[i]);
    }
    for (std::int64_t i = 0; i < count; ++i) means[lane + i] = sum[i] * share;
  });
}

template <class T>
LOCKSTEP_INLINE void fill(const float* values, float scale, std::int64_t pixels, std::int64_t lanes,
                          std::int64_t channels, T* plane) {
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    T* to = plane + pixel * lanes;
    for (std::int64_t i = 0; i < channels; ++i) store(scale * values[i], to[i]);
    std::fill(to + channels, to + lanes, T{});
  }
}

}  // namespace

LOCKSTEP_CLONES void max_of_window(const float* plane, std::span<const WindowPixel> window,
                                   std::int64_t lanes, float* maxima, std::uint8_t* places) {
  max_of(plane, window, lanes, maxima, places);
}
LOCKSTEP_CLONES void max_of_window(const BFloat16* plane, std::span<const WindowPixel> window,
                                   std::int64_t lanes, BFloat16* maxima, std::uint8_t* places) {
  max_of(plane, window, lanes, maxima, places);
}

LOCKSTEP_CLONES void add_at_places(const float* gradient, const std::uint8_t* places,
                                   std::span<const WindowPixel> window, std::int64_t lanes,
                                   float* plane) {
  add_at(gradient, places, window, lanes, plane);
}
LOCKSTEP_CLONES void add_at_places(const BFloat16* gradient, const std::uint8_t* places,
                                   std::span<const WindowPixel> window, std::int64_t lanes,
                                   BFloat16* plane) {
  add_at(gradient, places, window, lanes, plane);
}

LOCKSTEP_CLONES void mean_of_pixels(const float* plane, std::int64_t pixels, std::int64_t lanes,
                                    std::int64_t channels, float* means) {
  mean_of(plane, pixels, lanes, channels, means);
}
LOCKSTEP_CLONES void mean_of_pixels(const BFloat16* plane, std::int64_t pixels, std::int64_t lanes,
                                    std::int64_t channels, float* means) {
  mean_of(plane, pixels, lanes, channels, means);
}

LOCKSTEP_CLONES void fill_pixels(const float* values, float scale, std::int64_t pixels,
                                 std::int64_t lanes, std::int64_t channels, float* plane) {
  fill(values, scale, pixels, lanes, channels, plane);
}
LOCKSTEP_CLONES void fill_pixels(const float* values, float scale, std::int64_t pixels,
                                 std::int64_t lanes, std::int64_t channels, BFloat16* plane) {
  fill(values, scale, pixels, lanes, channels, plane);
}

}  // namespace lockstep::backend::cpu
