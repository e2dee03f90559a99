// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cell_rows.hpp"
#include "f2x2_matrices.hpp"

// The tiles of a map in Winograd's algorithm, and the patches of maps that they need.

namespace lockstep::backend::cpu::cells {

/// The tiles that cover the output of one image.
struct TileGrid {
  explicit TileGrid(core::ImageShape output)
      : rows(ceil_div(output.height, tile_size)), columns(ceil_div(output.width, tile_size)) {}

  std::int64_t rows, columns;
  std::int64_t count() const { return rows * columns; }
};

/// The algorithm in the names of implementations.
inline constexpr std::string_view winograd_name = " winograd 2x2";

/// Returns the number of multiplications of Winograd's algorithm, relative to the direct one, for
/// this output: 4/9, or more if the tiles extend beyond the map.
inline double winograd_arithmetic(core::ImageShape output) {
  return static_cast<double>(frequencies * TileGrid(output).count()) /
         static_cast<double>(9 * output.pixels());
}

/// Returns the cells of a patch of Size x Size pixels of a map that consists of cells, for its
/// first block of channels; `height`: of the map. Cells of pixels outside the map are `zero_cell`.
template <std::size_t Size>
std::array<const core::BFloat16*, Size * Size> patch(const CellRows& rows, std::int64_t image_block,
                                                     std::int64_t height, std::int64_t top,
                                                     std::int64_t left) {
  std::array<const core::BFloat16*, Size * Size> cells;
  cells.fill(zero_cell);
  const std::int64_t stride = rows.strides(image_block).pixel;
  for (std::size_t i = 0; i < Size; ++i) {
    const std::int64_t y = top + static_cast<std::int64_t>(i);
    if (y < 0 || y >= height) continue;
    const core::BFloat16* const row = rows.row(image_block, y, nullptr);
    for (std::size_t j = 0; j < Size; ++j) {
      const std::int64_t x = left + static_cast<std::int64_t>(j);
      if (x >= 0 && x < rows.pixels()) cells[i * Size + j] = row + x * stride;
    }
  }
  return cells;
}

/// Moves the cells of a patch to the next block of channels.
template <std::size_t Count>
void next_block(const CellRows& rows, std::int64_t image_block,
                std::array<const core::BFloat16*, Count>& cells) {
  const std::int64_t stride = rows.strides(image_block).block;
  for (const core::BFloat16*& cell : cells) {
    if (cell != zero_cell) cell += stride;
  }
}

}  // namespace lockstep::backend::cpu::cells
