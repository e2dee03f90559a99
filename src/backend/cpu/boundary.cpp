// Copies of the values at the boundaries of a stage between feature maps in any layout and plain
// arrays (images, channels, height, width).

#include <algorithm>

#include "lockstep/core/error.hpp"
#include "operations.hpp"
#include "vectors.hpp"

namespace lockstep::backend::cpu {

namespace {

/// Calls work(value of the map, index of the plain array) for each value without padding.
template <class T, class Work>
void for_each_value(const FeatureMap& map, int threads, Work work) {
  const std::int64_t pixels = map.shape.pixels();
  const std::int64_t tasks = map.images * map.blocks();
#pragma omp parallel for num_threads(threads)
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t image = task / map.blocks(), block = task % map.blocks();
    const std::int64_t first = block * map.lanes();
    const std::int64_t stride = map.pixel_stride(image / map.images_per_block());
    const std::int64_t channels = std::min(map.lanes(), map.shape.channels - first);
    T* const from = map.as<T>() + map.offset(image, block);
    const std::int64_t index = (image * map.shape.channels + first) * pixels;
    for (std::int64_t lane = 0; lane < channels; ++lane) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
        work(from[pixel * stride + lane], index + lane * pixels + pixel);
    }
  }
}

template <class Work>
void for_each_value_of(const FeatureMap& map, std::size_t values, int threads, Work work) {
  core::check(static_cast<std::int64_t>(values) == map.images * map.shape.elements(),
              "a boundary value has the size of its feature map");
  if (map.type == core::DataType::bfloat16) {
    for_each_value<core::BFloat16>(map, threads, work);
  } else {
    for_each_value<float>(map, threads, work);
  }
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
