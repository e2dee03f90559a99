// SPDX-License-Identifier: BSD-3-Clause
// Copies between feature maps in any layout and plain arrays (images, channels, height, width), for
// the boundaries of a stage and for flattening.

#include <algorithm>

#include "lockstep/core/error.hpp"
#include "operations.hpp"
#include "vectors.hpp"

namespace lockstep::backend::cpu {

namespace {

/// Calls work(value, index of the value in a plain array (images, channels, height, width)) for
/// each value of a map in any layout, without padding. Several threads call it.
template <class T, class Work>
void for_each_value(const FeatureMap& map, int threads, Work&& work) {
  const std::int64_t pixels = map.shape.pixels();
  const std::int64_t tasks = map.images * map.blocks();
#pragma omp parallel for num_threads(threads)
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t image = task / map.blocks(), block = task % map.blocks();
    const std::int64_t first = block * map.lanes();
    const std::int64_t channels = std::min(map.lanes(), map.shape.channels - first);
    const std::int64_t stride = map.pixel_stride(map.block_of(image));
    T* const values = map.as<T>() + map.offset(image, block);
    const std::int64_t index = (image * map.shape.channels + first) * pixels;
    for (std::int64_t lane = 0; lane < channels; ++lane) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
        work(values[pixel * stride + lane], index + lane * pixels + pixel);
    }
  }
}

/// As above, for all types; `values`: size of the array.
template <class Work>
void for_each_value_of(const FeatureMap& map, std::size_t values, int threads, const Work& work) {
  core::check(static_cast<std::int64_t>(values) == map.images * map.shape.elements(),
              "an array of values has the size of its feature map");
  with_type(map.type, [&]<class T>() { for_each_value<T>(map, threads, work); });
}

}  // namespace

void write_values(std::span<const float> values, const FeatureMap& map, int threads) {
  if (map.padded_channels() != map.shape.channels) std::fill_n(map.data, map.bytes(), std::byte{});
  for_each_value_of(map, values.size(), threads,
                    [&](auto& value, std::int64_t i) { store(values[i], value); });
}

void read_values(const FeatureMap& map, std::span<float> values, int threads) {
  for_each_value_of(map, values.size(), threads,
                    [&](auto& value, std::int64_t i) { values[i] = load(value); });
}

}  // namespace lockstep::backend::cpu
