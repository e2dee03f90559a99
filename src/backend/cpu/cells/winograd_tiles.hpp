// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "geometry.hpp"

// The tiles of Winograd's algorithms, and the patches of maps that belong to them.

namespace lockstep::backend::cpu::cells {

/// Sizes of a variant of Winograd's algorithm for 3x3 kernels.
struct WinogradSizes {
  std::int64_t tile_size = 0;    ///< pixels of the output, in each dimension
  std::int64_t frequencies = 0;  ///< products per tile and pair of channels

  /// Returns the number of multiplications, relative to the direct algorithm, for this output: more
  /// than frequencies / (9 tile_size^2) if the tiles extend beyond the map.
  double arithmetic(core::ImageShape output) const;
};
inline constexpr WinogradSizes f2x2_sizes{.tile_size = 2, .frequencies = 16};
inline constexpr WinogradSizes f4x4_sizes{.tile_size = 4, .frequencies = 36};

/// The tiles that cover the output of one image.
struct TileGrid {
  TileGrid(core::ImageShape output, std::int64_t size)
      : rows(ceil_div(output.height, size)), columns(ceil_div(output.width, size)) {}

  std::int64_t rows, columns;
  std::int64_t count() const { return rows * columns; }
};

/// The pixels of the output that a tile covers, for a block of images.
struct TilePosition {
  std::int64_t image_block, row, column;  ///< the first row and column
  std::int64_t images;                    ///< of the block
};

inline double WinogradSizes::arithmetic(core::ImageShape output) const {
  return static_cast<double>(frequencies * TileGrid(output, tile_size).count()) /
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
