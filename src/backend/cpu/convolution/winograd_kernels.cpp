// SPDX-License-Identifier: BSD-3-Clause
#include "winograd_kernels.hpp"

#include "../kernels/division.hpp"
#include "winograd_transforms.hpp"

namespace lockstep::backend::cpu::winograd {

int vector_lanes(std::int64_t map_lanes) {
  static const bool wide = __builtin_cpu_supports("avx512f") > 0;
  return wide && map_lanes % 16 == 0 ? 16 : 8;
}

Tiling tiling_of(const FeatureMap& map) {
  const std::int64_t rows = (map.shape.height + tile_size - 1) / tile_size;
  const std::int64_t columns = (map.shape.width + tile_size - 1) / tile_size;
  return {rows, columns, map.images * rows * columns};
}

void prefetch_tiles(const FeatureMap& map, Tiling tiling, TileRange range, std::int64_t size,
                    std::int64_t channel, std::int64_t count, std::int64_t part,
                    std::int64_t parts) {
  constexpr std::int64_t cache_line_bytes = 64;
  const auto value_bytes = static_cast<std::int64_t>(core::size_of(map.type));
  const std::int64_t lanes = std::min(map.lanes(), cache_line_bytes / value_bytes);
  const std::int64_t pixel = map.lanes() * value_bytes, line = map.shape.width * pixel;
  const std::int64_t vectors = count / lanes;
  const Range units = part_of(range.count * vectors, part, parts);
  for (std::int64_t unit = units.first; unit < units.last; ++unit) {
    const auto place = place_of(map.data, map, tiling, range.first + unit / vectors, size);
    const std::int64_t lane = channel_offset(map, channel + unit % vectors * lanes);
    const std::byte* const first = map.data + (place.pixel - map.data + lane) * value_bytes;
    for (std::int64_t row = 0; row < size; ++row) {
      for (std::int64_t column = 0; column < size; ++column)
        __builtin_prefetch(first + row * line + column * pixel, 0, 2);
    }
  }
}

LOCKSTEP_CLONES void transform_input(const FeatureMap& map, Tiling tiling, TileRange range,
                                     const Panels& to, std::int64_t first_entry) {
  transform_map<Bt, tile_size, 1>(map, tiling, range, to, first_entry, nullptr);
}

LOCKSTEP_CLONES void transform_gradient(const FeatureMap& map, Tiling tiling, TileRange range,
                                        const Panels& to, std::int64_t first_entry, float* sums) {
  transform_map<A, tile_size, 0>(map, tiling, range, to, first_entry, sums);
}

LOCKSTEP_CLONES void transform_output(const Panels& from, std::int64_t first_entry,
                                      const FeatureMap& map, Tiling tiling, TileRange range,
                                      std::int64_t panel, const float* bias,
                                      PartialSums* statistics) {
  output_map<At>(from, first_entry, map, tiling, range, panel, bias, statistics);
}

LOCKSTEP_CLONES void transform_weights(const Kernels& kernels, std::int64_t panel,
                                       const Panels& to) {
  weights_to_panel<G>(kernels, panel, to);
}

LOCKSTEP_CLONES void transform_weight_gradient(const Panels& from, const Kernels& kernels,
                                               std::int64_t first_depth, std::int64_t panel,
                                               bool accumulate) {
  panel_to_weight_gradient<Gt>(from, kernels, first_depth, panel, accumulate);
}

}  // namespace lockstep::backend::cpu::winograd
