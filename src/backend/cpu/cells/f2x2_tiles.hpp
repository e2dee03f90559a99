// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cell_rows.hpp"
#include "f2x2_matrices.hpp"

// The tiles of a map in Winograd's algorithm, and the rows of maps that they need.

namespace lockstep::backend::cpu::cells {

/// The tiles that cover the output of one image.
struct TileGrid {
  explicit TileGrid(core::ImageShape output)
      : rows(ceil_div(output.height, tile_size)), columns(ceil_div(output.width, tile_size)) {}

  std::int64_t rows, columns;
  std::int64_t count() const { return rows * columns; }
};

/// The rows of a map that one thread reads. Rows that must be copied are kept until other rows need
/// their memory, because consecutive tiles share rows.
class RecentRows {
 public:
  static std::size_t bytes(const CellRows& rows) {
    return rows.in_place() ? 0 : most * static_cast<std::size_t>(rows.bytes());
  }

  /// `copies`: memory of `bytes` bytes.
  RecentRows(const CellRows& rows, core::BFloat16* copies) : rows_(rows), copies_(copies) {
    copied_.fill({-1, -1});
  }

  /// Sets `cells` to the pixels of a patch of Size x Size pixels that are in the map; `height`: of
  /// the map. The other elements become `zero_cell`. The cells are those of the first block of
  /// channels.
  template <std::size_t Size>
  void patch(std::int64_t image_block, std::int64_t height, std::int64_t top, std::int64_t left,
             std::array<const core::BFloat16*, Size * Size>& cells) {
    cells.fill(zero_cell);
    strides_ = rows_.strides(image_block);
    for (std::size_t i = 0; i < Size; ++i) {
      const std::int64_t y = top + static_cast<std::int64_t>(i);
      if (y < 0 || y >= height) continue;
      const core::BFloat16* const row = first_cell(image_block, y);
      for (std::size_t j = 0; j < Size; ++j) {
        const std::int64_t x = left + static_cast<std::int64_t>(j);
        if (x >= 0 && x < rows_.pixels()) cells[i * Size + j] = row + x * strides_.pixel;
      }
    }
  }

  /// Moves the cells of the last patch to the next block of channels.
  template <std::size_t Count>
  void next_block(std::array<const core::BFloat16*, Count>& cells) const {
    for (const core::BFloat16*& cell : cells) {
      if (cell != zero_cell) cell += strides_.block;
    }
  }

 private:
  static constexpr std::size_t most = 4;  ///< rows of a patch

  const core::BFloat16* first_cell(std::int64_t image_block, std::int64_t row) {
    const std::size_t slot = static_cast<std::size_t>(row) % most;
    core::BFloat16* const copy =
        copies_ + static_cast<std::int64_t>(slot) * rows_.cells() * cell_size;
    const std::pair wanted{image_block, row};
    if (rows_.in_place() || copied_[slot] != wanted) {
      copied_[slot] = wanted;
      return rows_.row(image_block, row, copy);
    }
    return copy;
  }

  const CellRows& rows_;
  core::BFloat16* copies_;
  CellStrides strides_;  // of the last patch
  std::array<std::pair<std::int64_t, std::int64_t>, most> copied_;
};

}  // namespace lockstep::backend::cpu::cells
