// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>

#include "../../feature_map.hpp"
#include "../fused_statistics.hpp"
#include "../kernels/winograd_matrices.hpp"
#include "winograd_panels.hpp"

// The transforms between maps, weights or their gradient, and panels, for any matrices.

namespace lockstep::backend::cpu::winograd {

/// Position of one tile: the address of its first pixel in channel 0, and the row and column of
/// that pixel in the map.
template <class M>
struct Place {
  M* pixel;
  std::int64_t row, column;
};

template <class M>
LOCKSTEP_INLINE Place<M> place_of(M* data, const FeatureMap& map, Tiling tiling, std::int64_t tile,
                                  std::int64_t size) {
  const std::int64_t per_image = tiling.rows * tiling.columns;
  const std::int64_t image = tile / per_image, in_image = tile % per_image;
  const std::int64_t row = in_image / tiling.columns * size;
  const std::int64_t column = in_image % tiling.columns * size;
  return {data + map.offset(image, 0) + (row * map.shape.width + column) * map.lanes(), row,
          column};
}

LOCKSTEP_INLINE std::int64_t channel_offset(const FeatureMap& map, std::int64_t channel) {
  return channel / map.lanes() * map.plane(0) + channel % map.lanes();
}

/// The products of one tile in a panel: `side` rows and columns of vectors. With stride 2, the rows
/// and columns from `head` on use the same weights, and are stored in other places.
template <int side>
struct TileProducts {
  static constexpr int head = side == 9 ? 5 : side, tail = side - head;

  LOCKSTEP_INLINE TileProducts(const Panels& panels, std::int64_t panel, std::int64_t entry) {
    const std::int64_t all = panels.panels * panels.panel_stride(), lanes = panels.lanes();
    parts[0][0] = {panels.at(0, panel, entry), side * all + 6 * Panels::gap, all + Panels::gap};
    if constexpr (tail > 0) {
      parts[0][1] = {panels.at(5, panel, entry), parts[0][0].row, lanes};
      parts[1][0] = {panels.at(30, panel, entry), lanes, 4 * all + Panels::gap};
      parts[1][1] = {panels.at(35, panel, entry), 4 * lanes, lanes};
    }
  }

  template <int W>
  LOCKSTEP_INLINE void load_column(int column, Vector<W> (&to)[side], std::int64_t lane) const {
    const bool is_tail = column >= head;
    const std::int64_t c = is_tail ? column - head : column;
    const Part &first = parts[0][is_tail], &last = parts[1][is_tail];
    load_each<W, head>(first.at + c * first.column + lane, first.row, to);
    load_each<W, tail>(last.at + c * last.column + lane, last.row, to + head);
  }
  template <int W>
  LOCKSTEP_INLINE void store_row(int row, const Vector<W> (&from)[side], std::int64_t lane) const {
    const bool is_tail = row >= head;
    const std::int64_t r = is_tail ? row - head : row;
    const Part &first = parts[is_tail][0], &last = parts[is_tail][1];
    store_each<W, head>(from, first.at + r * first.row + lane, first.column);
    store_each<W, tail>(from + head, last.at + r * last.row + lane, last.column);
  }

  struct Part {
    float* at = nullptr;
    std::int64_t row = 0, column = 0;  ///< distances
  };
  Part parts[2][2];
};

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

/// Tiles whose vectors of one channel block are transformed one after the other, because they are
/// next to each other in memory.
constexpr std::int64_t tiles_per_group = 8;

/// Adds the pixels of a tile that are in the map to `sum`.
template <int W, int size, class M>
LOCKSTEP_INLINE void add_pixels(const M* pixel, const FeatureMap& map, Place<const M> place,
                                Vector<W>& sum) {
  const std::int64_t rows = std::min<std::int64_t>(size, map.shape.height - place.row);
  const std::int64_t columns = std::min<std::int64_t>(size, map.shape.width - place.column);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column)
      sum += load<W>(pixel + (row * map.shape.width + column) * map.lanes());
  }
}

/// Prefetches the size x size pixels from `corner` on, whose addresses differ by `line` and
/// `pixel`.
template <int size, int writes, class M>
LOCKSTEP_INLINE void prefetch_pixels(const M* corner, std::int64_t line, std::int64_t pixel) {
#pragma GCC unroll 8
  for (std::int64_t row = 0; row < size; ++row) {
#pragma GCC unroll 8
    for (std::int64_t column = 0; column < size; ++column)
      __builtin_prefetch(corner + row * line + column * pixel, writes);
  }
}

/// Applies T to the T::in x T::in pixels from `in` on, whose first row and column are `top` and
/// `left`; pixels outside the map are 0. `patch`: memory for pixels at the edge of the map.
template <class T, int W, class M>
LOCKSTEP_INLINE void transform_tile(const M* in, const FeatureMap& map, std::int64_t top,
                                    std::int64_t left, M* patch,
                                    const TileProducts<T::out>& products, std::int64_t lane) {
  const std::int64_t pixel = map.lanes(), line = map.shape.width * pixel;
  const bool inside =
      top >= 0 && left >= 0 && top + T::in <= map.shape.height && left + T::in <= map.shape.width;
  const std::int64_t down = inside ? line : T::in * W, right = inside ? pixel : W;
  if (!inside) {
    copy_patch<W, T::in>(in, map, top, left, patch);
    in = patch;
  }
  transform<T, W>(
      [&](int column, Vector<W>(&x)[T::in]) { load_each<W, T::in>(in + column * right, down, x); },
      [&](int row, const Vector<W>(&y)[T::out]) { products.template store_row<W>(row, y, lane); });
}

/// Applies T to the T::in x T::in pixels that begin `margin` pixels above and left of each tile of
/// size x size pixels; pixels outside the map are 0.
template <class T, int W, int size, int margin, class M>
LOCKSTEP_INLINE void transform_tiles(const M* data, const FeatureMap& map, Tiling tiling,
                                     TileRange range, const Panels& to, std::int64_t first_entry,
                                     float* sums) {
  const std::int64_t pixel = map.lanes(), line = map.shape.width * pixel;
  alignas(64) M patch[T::in * T::in * W];
  Place<const M> places[tiles_per_group], next[tiles_per_group];
  for (std::int64_t i = 0; i < std::min(tiles_per_group, range.count); ++i)
    next[i] = place_of(data, map, tiling, range.first + i, size);
  for (std::int64_t begin = 0; begin < range.count; begin += tiles_per_group) {
    const std::int64_t count = std::min(tiles_per_group, range.count - begin);
    std::copy_n(next, tiles_per_group, places);
    for (std::int64_t i = 0; i < tiles_per_group; ++i) {
      const std::int64_t tile = range.first + begin + tiles_per_group + i;
      next[i] = place_of(data, map, tiling, std::min(tile, tiling.count - 1), size);
    }
    for (std::int64_t channel = 0; channel < map.shape.channels; channel += W) {
      const std::int64_t panel = channel / to.lanes(), lane = channel % to.lanes();
      const std::int64_t offset = channel_offset(map, channel);
      const bool is_last = channel + W == map.shape.channels;
      const std::int64_t ahead = is_last ? 0 : channel_offset(map, channel + W);
      Vector<W> sum = {};
      for (std::int64_t i = 0; i < count; ++i) {
        // The hardware prefetcher does not recognise this pattern.
        const M* soon = (is_last ? next[i] : places[i]).pixel + ahead;
        prefetch_pixels<size, 0>(soon, line, pixel);
        const M* in = places[i].pixel + offset;
        if (sums != nullptr) add_pixels<W, size>(in, map, places[i], sum);
        const TileProducts<T::out> products(to, panel, first_entry + begin + i);
        transform_tile<T, W>(in - margin * (line + pixel), map, places[i].row - margin,
                             places[i].column - margin, patch, products, lane);
      }
      if (sums != nullptr) store<W>(load<W>(sums + channel) + sum, sums + channel);
    }
  }
}

template <class T, int size, int margin, class M>
LOCKSTEP_INLINE void transform_type(const FeatureMap& map, Tiling tiling, TileRange range,
                                    const Panels& to, std::int64_t first_entry, float* sums) {
  const M* const data = map.as<const M>();
  if (to.vector_lanes == 16) {
    transform_tiles<T, 16, size, margin>(data, map, tiling, range, to, first_entry, sums);
  } else {
    transform_tiles<T, 8, size, margin>(data, map, tiling, range, to, first_entry, sums);
  }
}

template <class T, int size, int margin>
LOCKSTEP_INLINE void transform_map(const FeatureMap& map, Tiling tiling, TileRange range,
                                   const Panels& to, std::int64_t first_entry, float* sums) {
  if (map.type == core::DataType::bfloat16) {
    transform_type<T, size, margin, core::BFloat16>(map, tiling, range, to, first_entry, sums);
  } else {
    transform_type<T, size, margin, float>(map, tiling, range, to, first_entry, sums);
  }
}

/// The statistics of the channels of one vector.
template <int W>
struct VectorStatistics {
  Vector<W> shift = {}, sum = {}, square = {};

  LOCKSTEP_INLINE void load_from(const PartialSums& sums, std::int64_t lane) {
    shift = load<W>(sums.shift.data() + lane);
    sum = load<W>(sums.sum.data() + lane);
    square = load<W>(sums.square.data() + lane);
  }
  LOCKSTEP_INLINE void store_to(PartialSums& sums, std::int64_t lane) const {
    store<W>(shift, sums.shift.data() + lane);
    store<W>(sum, sums.sum.data() + lane);
    store<W>(square, sums.square.data() + lane);
  }
  LOCKSTEP_INLINE void add(Vector<W> output) {
    const Vector<W> difference = output - shift;
    sum += difference;
    square += difference * difference;
  }
};

/// The pixels of a tile that are in the map, in one vector of channels.
template <class M>
struct TilePixels {
  M* corner;
  std::int64_t line, pixel;  ///< distances
  std::int64_t rows, columns;
};

/// Applies T to the products of one tile, in the channels from `lane` on, and adds `bias`. Adds the
/// results to `statistics`, whose shift becomes the first pixel if `is_first`.
template <class T, int W, class M>
LOCKSTEP_INLINE void output_tile(const TileProducts<T::in>& products, std::int64_t lane,
                                 const TilePixels<M>& to, Vector<W> bias, bool is_first,
                                 VectorStatistics<W>& statistics) {
  transform<T, W>(
      [&](int column, Vector<W>(&x)[T::in]) { products.template load_column<W>(column, x, lane); },
      [&](int row, const Vector<W>(&y)[T::out]) {
        if (row >= to.rows) return;
        M* at = to.corner + row * to.line;
#pragma GCC unroll 8
        for (int column = 0; column < T::out; ++column, at += to.pixel) {
          if (column >= to.columns) break;
          forget(at);
          store<W>(y[column] + bias, at);
          const Vector<W> output = load<W>(at);  // rounded to the type of the map
          if (row == 0 && column == 0 && is_first) statistics.shift = output;
          statistics.add(output);
        }
      });
}

/// Applies T to the products of each tile; adds `bias`.
template <class T, int W, class M>
LOCKSTEP_INLINE void output_tiles(const Panels& from, std::int64_t first_entry, M* data,
                                  const FeatureMap& map, Tiling tiling, TileRange range,
                                  std::int64_t panel, const float* bias, PartialSums* statistics) {
  constexpr std::int64_t size = T::out;
  const std::int64_t pixel = map.lanes(), line = map.shape.width * pixel;
  auto next = place_of(data, map, tiling, range.first, size);
  for (std::int64_t i = 0; i < range.count; ++i) {
    const auto place = next;
    next = place_of(data, map, tiling, range.first + std::min(i + 1, range.count - 1), size);
    const std::int64_t rows = std::min(size, map.shape.height - place.row);
    const std::int64_t columns = std::min(size, map.shape.width - place.column);
    for (std::int64_t lane = 0; lane < from.lanes(); lane += W) {
      const std::int64_t channel = panel * from.lanes() + lane;
      const std::int64_t offset = channel_offset(map, channel);
      // The pixels that the next tile writes.
      prefetch_pixels<size, 1>(next.pixel + offset, line, pixel);
      const Vector<W> added = bias != nullptr ? load<W>(bias + channel) : Vector<W>{};
      const bool is_first = i == 0 && (statistics == nullptr || statistics->count == 0);
      VectorStatistics<W> of_vector;
      if (!is_first && statistics != nullptr) of_vector.load_from(*statistics, lane);
      output_tile<T, W>(TileProducts<T::in>(from, 0, first_entry + i), lane,
                        TilePixels<M>{place.pixel + offset, line, pixel, rows, columns}, added,
                        is_first, of_vector);
      if (statistics != nullptr) of_vector.store_to(*statistics, lane);
    }
    if (statistics != nullptr) statistics->count += rows * columns;
  }
}

template <class T, class M>
LOCKSTEP_INLINE void output_type(const Panels& from, std::int64_t first_entry,
                                 const FeatureMap& map, Tiling tiling, TileRange range,
                                 std::int64_t panel, const float* bias, PartialSums* statistics) {
  M* const data = map.as<M>();
  if (from.vector_lanes == 16) {
    output_tiles<T, 16>(from, first_entry, data, map, tiling, range, panel, bias, statistics);
  } else {
    output_tiles<T, 8>(from, first_entry, data, map, tiling, range, panel, bias, statistics);
  }
}

template <class T>
LOCKSTEP_INLINE void output_map(const Panels& from, std::int64_t first_entry, const FeatureMap& map,
                                Tiling tiling, TileRange range, std::int64_t panel,
                                const float* bias, PartialSums* statistics) {
  if (map.type == core::DataType::bfloat16) {
    output_type<T, core::BFloat16>(from, first_entry, map, tiling, range, panel, bias, statistics);
  } else {
    output_type<T, float>(from, first_entry, map, tiling, range, panel, bias, statistics);
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

template <class T, int W>
LOCKSTEP_INLINE void weights_to_panel(const Kernels& kernels, std::int64_t panel,
                                      const Panels& to) {
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
      const TileProducts<T::out> products(to, 0, begin + i);
      for (int lane = 0; lane < 2 * W; lane += W) {
        transform<T, W>(
            [&](int column, Vector<W>(&x)[3]) {
              load_each<W, 3>(some[i].of[column] + lane, std::int64_t{3} * 2 * W, x);
            },
            [&](int row, const Vector<W>(&y)[T::out]) {
              products.template store_row<W>(row, y, lane);
            });
      }
    }
  }
}

template <class T, int W>
LOCKSTEP_INLINE void panel_to_weight_gradient(const Panels& from, const Kernels& kernels,
                                              std::int64_t first_depth, std::int64_t panel,
                                              bool accumulate) {
  Taps<W> g;
  for (std::int64_t entry = 0; entry < from.entries; ++entry) {
    const TileProducts<T::in> products(from, 0, entry);
    for (int lane = 0; lane < 2 * W; lane += W) {
      transform<T, W>(
          [&](int column, Vector<W>(&x)[T::in]) {
            products.template load_column<W>(column, x, lane);
          },
          [&](int row, const Vector<W>(&y)[3]) {
            store_each<W, 3>(y, g.of[row * 3] + lane, std::int64_t{2} * W);
          });
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

// As above, with the lanes of the panels.

template <class T>
LOCKSTEP_INLINE void weights_to_panel(const Kernels& kernels, std::int64_t panel,
                                      const Panels& to) {
  if (to.vector_lanes == 16) {
    weights_to_panel<T, 16>(kernels, panel, to);
  } else {
    weights_to_panel<T, 8>(kernels, panel, to);
  }
}

template <class T>
LOCKSTEP_INLINE void panel_to_weight_gradient(const Panels& from, const Kernels& kernels,
                                              std::int64_t first_depth, std::int64_t panel,
                                              bool accumulate) {
  if (from.vector_lanes == 16) {
    panel_to_weight_gradient<T, 16>(from, kernels, first_depth, panel, accumulate);
  } else {
    panel_to_weight_gradient<T, 8>(from, kernels, first_depth, panel, accumulate);
  }
}

}  // namespace lockstep::backend::cpu::winograd
