// SPDX-License-Identifier: BSD-3-Clause
// Copies of the values at the boundaries of a stage between feature maps in any layout and plain
// arrays (images, channels, height, width).

#include <algorithm>

#include "lockstep/core/error.hpp"
#include "map_values.hpp"
#include "operations.hpp"
#include "vectors.hpp"

namespace lockstep::backend::cpu {

namespace {

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
