// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "geometry.hpp"

// The tiles of Winograd's algorithms, and the patches of maps that belong to them.

namespace lockstep::backend::cpu::cells {

/// Sizes of a variant of Winograd's algorithm for 3x3 kernels.
struct WinogradSizes {
  std::int64_t patch_size = 0;          ///< pixels of the map that is read, in each dimension
  std::int64_t tile_size = 0;           ///< pixels of the map that is written
  std::int64_t frequencies = 0;         ///< products per tile and pair of channels
  std::int64_t weight_frequencies = 0;  ///< transformed weights per pair of channels
};

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

/// Returns the number of multiplications, relative to the direct algorithm, for tiles that cover
/// this map; `outputs`: pixels of the output of the convolution.
inline double winograd_arithmetic(const WinogradSizes& sizes, core::ImageShape map,
                                  std::int64_t outputs) {
  return static_cast<double>(sizes.frequencies * TileGrid(map, sizes.tile_size).count()) /
         static_cast<double>(9 * outputs);
}

/// The cells of a square of pixels of a map that consists of cells, row by row, for one block of
/// channels. Cells of pixels outside the map are `zero_cell`.
class Patch {
 public:
  static constexpr std::int64_t most_size = 9;

  /// A patch of `size` x `size` pixels, for the first block of channels; `height`: of the map.
  Patch(const CellRows& rows, std::int64_t image_block, std::int64_t height, std::int64_t top,
        std::int64_t left, std::int64_t size)
      : size_(size), block_stride_(rows.strides(image_block).block) {
    cells_.fill(zero_cell);
    const std::int64_t stride = rows.strides(image_block).pixel;
    for (std::int64_t y = std::max<std::int64_t>(top, 0); y < std::min(top + size, height); ++y) {
      const core::BFloat16* const row = rows.row(image_block, y, nullptr);
      for (std::int64_t x = std::max<std::int64_t>(left, 0);
           x < std::min(left + size, rows.pixels()); ++x)
        cells_[static_cast<std::size_t>((y - top) * size + x - left)] = row + x * stride;
    }
  }

  std::int64_t size() const { return size_; }
  std::span<const core::BFloat16* const> cells() const {
    return std::span(cells_).first(static_cast<std::size_t>(size_ * size_));
  }
  std::span<const core::BFloat16* const> row(std::int64_t row) const {
    return cells().subspan(static_cast<std::size_t>(row * size_), static_cast<std::size_t>(size_));
  }
  /// Moves the cells by blocks of channels.
  void move_blocks(std::int64_t blocks) {
    for (const core::BFloat16*& cell : cells_) {
      if (cell != zero_cell) cell += blocks * block_stride_;
    }
  }
  /// Returns a patch in which each cell is replaced by copy(cell), but not `zero_cell`.
  template <class Copy>
  Patch copied(Copy&& copy) const {
    Patch copies = *this;
    for (const core::BFloat16*& cell : copies.cells_) {
      if (cell != zero_cell) cell = copy(cell);
    }
    return copies;
  }

 private:
  std::array<const core::BFloat16*, std::size_t{most_size * most_size}> cells_;
  std::int64_t size_, block_stride_;
};

}  // namespace lockstep::backend::cpu::cells
