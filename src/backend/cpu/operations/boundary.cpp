// SPDX-License-Identifier: BSD-3-Clause
// Copies between feature maps in any layout and plain arrays (images, channels, height, width): the
// uploaded images, the boundaries of a stage, and flattening.

#include "boundary.hpp"

#include <algorithm>

#include "../kernels/vectors.hpp"
#include "lockstep/core/error.hpp"
#include "operations.hpp"

namespace lockstep::backend::cpu {

namespace {

/// Calls work(value, index of the value in a plain array (images, channels, height, width), its
/// channel) for each value of a map in any layout; `writes`: sets its padding to 0. Several threads
/// call it. `values`: size of the array.
template <bool writes, class Work>
void for_each_value(const FeatureMap& map, std::size_t values, int threads, const Work& work) {
  core::check(static_cast<std::int64_t>(values) == map.images * map.shape.elements(),
              "an array of values has the size of its feature map");
  const std::int64_t pixels = map.shape.pixels();
  const std::int64_t tasks = map.images * map.blocks();
  with_type(map.type, [&]<class T>() {
#pragma omp parallel for num_threads(threads)
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int64_t image = task / map.blocks(), first = task % map.blocks() * map.lanes();
      const std::int64_t stride = map.pixel_stride(map.block_of(image));
      for (std::int64_t channel = first; channel < first + map.lanes(); ++channel) {
        T* const plane = map.as<T>() + map.index(image, channel, 0);
        const std::int64_t index = (image * map.shape.channels + channel) * pixels;
        if (channel < map.shape.channels) {
          for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
            work(plane[pixel * stride], index + pixel, channel);
        } else if (writes) {
          for (std::int64_t pixel = 0; pixel < pixels; ++pixel) plane[pixel * stride] = T{};
        }
      }
    }
  });
}

}  // namespace

ImageNormaliser::ImageNormaliser(const Normalisation& normalisation, std::int64_t channels,
                                 int threads)
    : table_(static_cast<std::size_t>(channels) * 256), threads_(threads) {
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(channels); ++channel) {
    const std::size_t known = std::min(channel, normalisation.mean.size() - 1);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      table_[channel * 256 + byte] =
          (static_cast<float>(byte) / 255.0f - normalisation.mean[known]) /
          normalisation.standard_deviation[known];
    }
  }
}

void ImageNormaliser::run(std::span<const std::uint8_t> images, const FeatureMap& map) const {
  FeatureMap some = map;
  some.images = static_cast<std::int64_t>(images.size()) / map.shape.elements();
  for_each_value<true>(some, images.size(), threads_,
                       [&](auto& value, std::int64_t i, std::int64_t channel) {
                         store(table_[channel * 256 + images[i]], value);
                       });
}

void write_values(std::span<const float> values, const FeatureMap& map, int threads) {
  for_each_value<true>(map, values.size(), threads,
                       [&](auto& value, std::int64_t i, std::int64_t) { store(values[i], value); });
}

void read_values(const FeatureMap& map, std::span<float> values, int threads) {
  for_each_value<false>(
      map, values.size(), threads,
      [&](auto& value, std::int64_t i, std::int64_t) { values[i] = load(value); });
}

}  // namespace lockstep::backend::cpu
