// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <type_traits>

#include "division.hpp"
#include "vectors.hpp"
#include "winograd_kernels.hpp"
#include "winograd_matrices.hpp"

// The transforms between maps, weights or their gradient, and panels, and the matrix products
// between the transforms, which are most of the arithmetic.

namespace lockstep::backend::cpu::winograd {

using core::BFloat16;

namespace {

/// Position of one tile: the address of its first pixel in channel 0, and the row and column of
/// that pixel in the map.
template <class M>
struct Place {
  M* pixel;
  std::int64_t row, column;
};

template <class M>
LOCKSTEP_INLINE Place<M> place_of(M* data, const FeatureMap& map, Tiling tiling,
                                  std::int64_t tile) {
  const std::int64_t per_image = tiling.rows * tiling.columns;
  const std::int64_t image = tile / per_image, in_image = tile % per_image;
  const std::int64_t row = in_image / tiling.columns * tile_size;
  const std::int64_t column = in_image % tiling.columns * tile_size;
  return {data + map.offset(image, 0) + (row * map.shape.width + column) * map.lanes(), row,
          column};
}

LOCKSTEP_INLINE std::int64_t channel_offset(const FeatureMap& map, std::int64_t channel) {
  return channel / map.lanes() * map.plane(0) + channel % map.lanes();
}

/// Copies the pixels of a patch that are in the map to `to` [row][column][lane]; the others are 0.
template <int W, int size, class M>
LOCKSTEP_INLINE void copy_patch(const M* corner, const FeatureMap& map, std::int64_t top,
                                std::int64_t left, M* to) {
  static constexpr M zeros[W] = {};
  for (std::int64_t row = 0; row < size; ++row) {
    const bool in_rows = top + row >= 0 && top + row < map.shape.height;
    for (std::int64_t column = 0; column < size; ++column, to += W) {
      const bool is_pixel = in_rows && left + column >= 0 && left + column < map.shape.width;
      const M* pixel = corner + (row * map.shape.width + column) * map.lanes();
      std::copy_n(is_pixel ? pixel : zeros, W, to);
    }
  }
}

constexpr std::int64_t cache_line_bytes = 64;

/// Tiles whose vectors of one channel block are transformed one after the other, because they are
/// next to each other in memory.
constexpr std::int64_t tiles_per_group = 8;

/// Adds the pixels of a tile that are in the map to `sum`.
template <int W, class M>
LOCKSTEP_INLINE void add_pixels(const M* pixel, const FeatureMap& map, Place<const M> place,
                                Vector<W>& sum) {
  const std::int64_t rows = std::min(tile_size, map.shape.height - place.row);
  const std::int64_t columns = std::min(tile_size, map.shape.width - place.column);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column)
      sum += load<W>(pixel + (row * map.shape.width + column) * map.lanes());
  }
}

/// Applies T to the T::in x T::in pixels that begin `margin` pixels above and left of each tile;
/// pixels outside the map are 0.
template <class T, int W, class M>
LOCKSTEP_INLINE void transform_tiles(const M* data, const FeatureMap& map, Tiling tiling,
                                     TileRange range, const Panels& to, std::int64_t first_entry,
                                     int margin, float* sums) {
  const std::int64_t pixel = map.lanes(), line = map.shape.width * pixel;
  const std::int64_t stride = to.frequency_stride();
  alignas(64) M patch[T::in * T::in * W];
  Place<const M> places[tiles_per_group], next[tiles_per_group];
  for (std::int64_t i = 0; i < std::min(tiles_per_group, range.count); ++i)
    next[i] = place_of(data, map, tiling, range.first + i);
  for (std::int64_t begin = 0; begin < range.count; begin += tiles_per_group) {
    const std::int64_t count = std::min(tiles_per_group, range.count - begin);
    std::copy_n(next, tiles_per_group, places);
    for (std::int64_t i = 0; i < tiles_per_group; ++i) {
      const std::int64_t tile = range.first + begin + tiles_per_group + i;
      next[i] = place_of(data, map, tiling, std::min(tile, tiling.count - 1));
    }
    for (std::int64_t channel = 0; channel < map.shape.channels; channel += W) {
      float* out = to.at(0, channel / to.lanes(), first_entry + begin) + channel % to.lanes();
      const std::int64_t offset = channel_offset(map, channel);
      const bool is_last = channel + W == map.shape.channels;
      const std::int64_t ahead = is_last ? 0 : channel_offset(map, channel + W);
      Vector<W> sum = {};
      for (std::int64_t i = 0; i < count; ++i, out += to.lanes()) {
        // The hardware prefetcher does not recognise this pattern.
        const M* soon = (is_last ? next[i] : places[i]).pixel + ahead;
#pragma GCC unroll 4
        for (std::int64_t row = 0; row < tile_size; ++row) {
#pragma GCC unroll 4
          for (std::int64_t column = 0; column < tile_size; ++column)
            __builtin_prefetch(soon + row * line + column * pixel);
        }
        const M* in = places[i].pixel + offset;
        if (sums != nullptr) add_pixels<W>(in, map, places[i], sum);
        in -= margin * (line + pixel);
        const std::int64_t top = places[i].row - margin, left = places[i].column - margin;
        const bool inside = top >= 0 && left >= 0 && top + T::in <= map.shape.height &&
                            left + T::in <= map.shape.width;
        const std::int64_t down = inside ? line : T::in * W, right = inside ? pixel : W;
        if (!inside) {
          copy_patch<W, T::in>(in, map, top, left, patch);
          in = patch;
        }
        transform<T, W>(
            [&](int column, auto& x) { load_each<W>(in + column * right, down, x); },
            [&](int row, const auto& y) { store_each<W>(y, out + row * T::out * stride, stride); });
      }
      if (sums != nullptr) store<W>(load<W>(sums + channel) + sum, sums + channel);
    }
  }
}

template <class T>
LOCKSTEP_INLINE void transform_map(const FeatureMap& map, Tiling tiling, TileRange range,
                                   const Panels& to, std::int64_t first_entry, int margin,
                                   float* sums) {
  const bool wide = to.vector_lanes == 16;
  if (map.type == core::DataType::bfloat16) {
    const auto* data = map.as<const BFloat16>();
    if (wide) {
      transform_tiles<T, 16>(data, map, tiling, range, to, first_entry, margin, sums);
    } else {
      transform_tiles<T, 8>(data, map, tiling, range, to, first_entry, margin, sums);
    }
  } else {
    const auto* data = map.as<const float>();
    if (wide) {
      transform_tiles<T, 16>(data, map, tiling, range, to, first_entry, margin, sums);
    } else {
      transform_tiles<T, 8>(data, map, tiling, range, to, first_entry, margin, sums);
    }
  }
}

template <int W, class M>
LOCKSTEP_INLINE void output_tiles(const Panels& from, M* data, const FeatureMap& map, Tiling tiling,
                                  TileRange range, std::int64_t panel, const float* bias,
                                  PartialSums* statistics) {
  const std::int64_t pixel = map.lanes(), line = map.shape.width * pixel;
  const std::int64_t stride = from.frequency_stride();
  auto next = place_of(data, map, tiling, range.first);
  for (std::int64_t i = 0; i < range.count; ++i) {
    const auto place = next;
    next = place_of(data, map, tiling, range.first + std::min(i + 1, range.count - 1));
    const std::int64_t rows = std::min(tile_size, map.shape.height - place.row);
    const std::int64_t columns = std::min(tile_size, map.shape.width - place.column);
    for (std::int64_t lane = 0; lane < from.lanes(); lane += W) {
      const std::int64_t channel = panel * from.lanes() + lane;
      M* corner = place.pixel + channel_offset(map, channel);
      // Prefetches the pixels that the next tile writes.
      M* next_corner = next.pixel + channel_offset(map, channel);
      for (std::int64_t row = 0; row < tile_size; ++row) {
        for (std::int64_t column = 0; column < tile_size; ++column)
          __builtin_prefetch(next_corner + row * line + column * pixel, 1);
      }
      const float* in = from.at(0, 0, i) + lane;
      const Vector<W> added = bias != nullptr ? load<W>(bias + channel) : Vector<W>{};
      const bool is_first = i == 0 && (statistics == nullptr || statistics->count == 0);
      Vector<W> shift = {}, sum = {}, square = {};
      if (!is_first && statistics != nullptr) {
        shift = load<W>(statistics->shift.data() + lane);
        sum = load<W>(statistics->sum.data() + lane);
        square = load<W>(statistics->square.data() + lane);
      }
      transform<At, W>(
          [&](int column, auto& x) { load_each<W>(in + column * stride, At::in * stride, x); },
          [&](int row, const auto& y) {
            if (row >= rows) return;
            M* at = corner + row * line;
#pragma GCC unroll 4
            for (int column = 0; column < tile_size; ++column, at += pixel) {
              if (column >= columns) break;
              forget(at);
              store<W>(y[column] + added, at);
              const Vector<W> output = load<W>(at);  // rounded to the type of the map
              if (row == 0 && column == 0 && is_first) shift = output;
              const Vector<W> difference = output - shift;
              sum += difference;
              square += difference * difference;
            }
          });
      if (statistics != nullptr) {
        store<W>(shift, statistics->shift.data() + lane);
        store<W>(sum, statistics->sum.data() + lane);
        store<W>(square, statistics->square.data() + lane);
      }
    }
    if (statistics != nullptr) statistics->count += rows * columns;
  }
}

constexpr int taps = 9;

/// Depth channels whose kernels are read together, because they are next to each other in memory.
constexpr std::int64_t depths_at_once = 8;

/// The kernels of one depth channel: for each of the nine taps the values of all lanes.
template <int W>
struct Taps {
  alignas(64) float of[taps][2 * W];
};

template <int W>
LOCKSTEP_INLINE void weights_to_panel(const Kernels& kernels, std::int64_t panel,
                                      const Panels& to) {
  const std::int64_t stride = to.frequency_stride();
  // The hardware prefetcher does not recognise this pattern.
  const std::int64_t ahead = depths_at_once * kernels.depth_stride * std::int64_t{sizeof(float)};
  Taps<W> some[depths_at_once];
  for (std::int64_t begin = 0; begin < kernels.depth; begin += depths_at_once) {
    const std::int64_t count = std::min(depths_at_once, kernels.depth - begin);
    for (int lane = 0; lane < 2 * W; ++lane) {
      const float* from = kernels.data + begin * kernels.depth_stride +
                          (panel * 2 * W + lane) * kernels.lane_stride;
      for (std::int64_t i = 0; i < count; ++i, from += kernels.depth_stride) {
        prefetch_ahead(from, ahead);
        for (int tap = 0; tap < taps; ++tap)
          some[i].of[kernels.rotated ? taps - 1 - tap : tap][lane] = from[tap];
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      for (int lane = 0; lane < 2 * W; lane += W) {
        float* out = to.at(0, 0, begin + i) + lane;
        transform<G, W>(
            [&](int column, auto& x) { load_each<W>(some[i].of[column] + lane, 3 * 2 * W, x); },
            [&](int row, const auto& y) { store_each<W>(y, out + row * G::out * stride, stride); });
      }
    }
  }
}

template <int W>
LOCKSTEP_INLINE void panel_to_weight_gradient(const Panels& from, const Kernels& kernels,
                                              std::int64_t first_depth, std::int64_t panel,
                                              bool accumulate) {
  const std::int64_t stride = from.frequency_stride();
  Taps<W> g;
  for (std::int64_t entry = 0; entry < from.entries; ++entry) {
    for (int lane = 0; lane < 2 * W; lane += W) {
      const float* in = from.at(0, 0, entry) + lane;
      transform<Gt, W>(
          [&](int column, auto& x) { load_each<W>(in + column * stride, Gt::in * stride, x); },
          [&](int row, const auto& y) { store_each<W>(y, g.of[row * 3] + lane, 2 * W); });
    }
    float* first = kernels.data + (first_depth + entry) * kernels.depth_stride +
                   panel * 2 * W * kernels.lane_stride;
    for (int lane = 0; lane < 2 * W; ++lane) {
      float* to = first + lane * kernels.lane_stride;
      prefetch_ahead<1>(to, kernels.depth_stride * std::int64_t{sizeof(float)});
      for (int tap = 0; tap < taps; ++tap)
        to[tap] = accumulate ? to[tap] + g.of[tap][lane] : g.of[tap][lane];
    }
  }
}

/// Rows of the register tile of the matrix products. With two vectors of columns, this is the
/// largest number of accumulators that leaves registers for the operands.
template <int W>
constexpr int most_rows = W == 16 ? 12 : 6;

/// Computes c[row][lane] = sum over k of a(row, k) * b[k][lane] for `Rows` rows and one panel of
/// lanes. a is stored in panels of 2 W values of k: along the lanes of a panel or, if `transposed`,
/// along its entries.
template <int W, int Rows, bool transposed>
LOCKSTEP_INLINE void register_tile(const float* a, std::int64_t panel_stride, const float* b,
                                   float* c, std::int64_t depth) {
  constexpr std::int64_t lanes = 2 * W;
  Vector<W> sum[Rows][2] = {};
  for (std::int64_t done = 0; done < depth; done += lanes, a += panel_stride) {
    const std::int64_t count = std::min(lanes, depth - done);
    if (!transposed) {
      // The rows of the next register tile, which the hardware prefetcher does not expect.
#pragma GCC unroll 24
      for (int line = 0; line < Rows * 2 * W / 16; ++line)
        __builtin_prefetch(a + Rows * lanes + line * 16, 0, 2);
    }
    for (std::int64_t k = 0; k < count; ++k, b += lanes) {
      const Vector<W> left = load<W>(b), right = load<W>(b + W);
#pragma GCC unroll 12
      for (int row = 0; row < Rows; ++row) {
        const float factor = transposed ? a[k * lanes + row] : a[row * lanes + k];
        sum[row][0] += factor * left;
        sum[row][1] += factor * right;
      }
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < Rows; ++row) {
    store<W>(sum[row][0], c + row * lanes);
    store<W>(sum[row][1], c + row * lanes + W);
  }
}

template <int W, bool transposed>
LOCKSTEP_INLINE void product(const float* a, std::int64_t panel_stride, const float* b, float* c,
                             std::int64_t rows, std::int64_t depth) {
  constexpr std::int64_t lanes = 2 * W, row_stride = transposed ? 1 : lanes;
  const auto with = [&]<int step>(std::integral_constant<int, step>) {
    for (; rows >= step; rows -= step, a += step * row_stride, c += step * lanes)
      register_tile<W, step, transposed>(a, panel_stride, b, c, depth);
  };
  with(std::integral_constant<int, most_rows<W>>{});
  if constexpr (most_rows < W >> 8) with(std::integral_constant<int, 8>{});
  with(std::integral_constant<int, 4>{});
  with(std::integral_constant<int, 1>{});
}

}  // namespace

int vector_lanes(std::int64_t map_lanes) {
  static const bool wide = __builtin_cpu_supports("avx512f") > 0;
  return wide && map_lanes % 16 == 0 ? 16 : 8;
}

Tiling tiling_of(const FeatureMap& map) {
  const std::int64_t rows = (map.shape.height + tile_size - 1) / tile_size;
  const std::int64_t columns = (map.shape.width + tile_size - 1) / tile_size;
  return {rows, columns, map.images * rows * columns};
}

void prefetch_tiles(const FeatureMap& map, Tiling tiling, TileRange range, std::int64_t channel,
                    std::int64_t count, std::int64_t part, std::int64_t parts) {
  const auto value_bytes = static_cast<std::int64_t>(core::size_of(map.type));
  const std::int64_t lanes = std::min(map.lanes(), cache_line_bytes / value_bytes);
  const std::int64_t pixel = map.lanes() * value_bytes, line = map.shape.width * pixel;
  const std::int64_t vectors = count / lanes;
  const Range units = part_of(range.count * vectors, part, parts);
  for (std::int64_t unit = units.first; unit < units.last; ++unit) {
    const auto place = place_of(map.data, map, tiling, range.first + unit / vectors);
    const std::int64_t lane = channel_offset(map, channel + unit % vectors * lanes);
    const std::byte* const first = map.data + (place.pixel - map.data + lane) * value_bytes;
    for (std::int64_t row = 0; row < tile_size; ++row) {
      for (std::int64_t column = 0; column < tile_size; ++column)
        __builtin_prefetch(first + row * line + column * pixel, 0, 2);
    }
  }
}

LOCKSTEP_CLONES void transform_input(const FeatureMap& map, Tiling tiling, TileRange range,
                                     const Panels& to, std::int64_t first_entry) {
  transform_map<Bt>(map, tiling, range, to, first_entry, 1, nullptr);
}

LOCKSTEP_CLONES void transform_gradient(const FeatureMap& map, Tiling tiling, TileRange range,
                                        const Panels& to, std::int64_t first_entry, float* sums) {
  transform_map<A>(map, tiling, range, to, first_entry, 0, sums);
}

LOCKSTEP_CLONES void transform_output(const Panels& from, const FeatureMap& map, Tiling tiling,
                                      TileRange range, std::int64_t panel, const float* bias,
                                      PartialSums* statistics) {
  const bool wide = from.vector_lanes == 16;
  if (map.type == core::DataType::bfloat16) {
    auto* data = map.as<BFloat16>();
    if (wide) {
      output_tiles<16>(from, data, map, tiling, range, panel, bias, statistics);
    } else {
      output_tiles<8>(from, data, map, tiling, range, panel, bias, statistics);
    }
  } else {
    auto* data = map.as<float>();
    if (wide) {
      output_tiles<16>(from, data, map, tiling, range, panel, bias, statistics);
    } else {
      output_tiles<8>(from, data, map, tiling, range, panel, bias, statistics);
    }
  }
}

LOCKSTEP_CLONES void transform_weights(const Kernels& kernels, std::int64_t panel,
                                       const Panels& to) {
  if (to.vector_lanes == 16) {
    weights_to_panel<16>(kernels, panel, to);
  } else {
    weights_to_panel<8>(kernels, panel, to);
  }
}

LOCKSTEP_CLONES void transform_weight_gradient(const Panels& from, const Kernels& kernels,
                                               std::int64_t first_depth, std::int64_t panel,
                                               bool accumulate) {
  if (from.vector_lanes == 16) {
    panel_to_weight_gradient<16>(from, kernels, first_depth, panel, accumulate);
  } else {
    panel_to_weight_gradient<8>(from, kernels, first_depth, panel, accumulate);
  }
}

LOCKSTEP_CLONES void multiply(const Panels& a, std::int64_t first_entry, const Panels& b,
                              const Panels& c, std::int64_t rows, std::int64_t frequency) {
  const float* from = a.at(frequency, 0, first_entry);
  const float* with = b.at(frequency, 0, 0);
  float* to = c.at(frequency, 0, 0);
  if (a.vector_lanes == 16) {
    product<16, false>(from, a.panel_stride(), with, to, rows, b.entries);
  } else {
    product<8, false>(from, a.panel_stride(), with, to, rows, b.entries);
  }
}

LOCKSTEP_CLONES void multiply_transposed(const Panels& a, std::int64_t a_panel, const Panels& b,
                                         std::int64_t b_panel, const Panels& c,
                                         std::int64_t c_entry, std::int64_t entries,
                                         std::int64_t frequency) {
  const float* from = a.at(frequency, a_panel, 0);
  const float* with = b.at(frequency, b_panel, 0);
  float* to = c.at(frequency, 0, c_entry);
  const std::int64_t lanes = a.lanes();
  if (a.vector_lanes == 16) {
    product<16, true>(from, lanes * lanes, with, to, lanes, entries);
  } else {
    product<8, true>(from, lanes * lanes, with, to, lanes, entries);
  }
}

}  // namespace lockstep::backend::cpu::winograd
