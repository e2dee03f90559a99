// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "../feature_map.hpp"

namespace lockstep::backend::cpu {

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

}  // namespace lockstep::backend::cpu
