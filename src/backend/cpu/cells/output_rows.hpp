// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::cells {

/// Fetches the lines [lines.first, lines.last) to the L2 cache.
inline void prefetch(const NextCells& next, Range lines) {
  while (lines.first < lines.last) {
    const std::int64_t block = lines.first / next.block_lines;
    const std::int64_t begin = block * next.block_lines;
    const std::int64_t end = std::min(lines.last, begin + next.block_lines);
    const core::BFloat16* const from = next.first + block * next.block_stride;
    for (; lines.first < end; ++lines.first)
      __builtin_prefetch(from + (lines.first - begin) * NextCells::line, 0, 2);
  }
}

/// Computes one row of the output. `multiply`(contributing columns, sums) computes the four tiles
/// of sums of a pixel: 2 halves of the images by 2 halves of the channels.
template <class Vectors, class Multiply>
void write_row(const OutputRow& row, Multiply&& multiply) {
  alignas(64) float sums[4 * tile_floats];
  for (std::int64_t pixel = 0; pixel < row.to.pixels; ++pixel) {
    prefetch(row.next, part_of(row.next.lines, pixel, row.to.pixels));
    multiply((*row.columns)[static_cast<std::size_t>(pixel)], sums);
    Vectors::write_pixel(sums, row.to, pixel * row.to.pixel_stride, row.streams, row.statistics);
  }
}

}  // namespace lockstep::backend::cpu::cells
