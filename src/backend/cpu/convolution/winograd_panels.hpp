// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// Tiles of maps, and the memory of their transformed values (see winograd_kernels.hpp).

namespace lockstep::backend::cpu::winograd {

inline constexpr std::int64_t frequencies = 36;
inline constexpr std::int64_t tile_size = 4;

/// Channels per panel: two vectors.
constexpr std::int64_t panel_lanes(int vector_lanes) { return 2 * vector_lanes; }

/// The 4x4 tiles that cover a batch of maps, in the order image, row, column.
struct Tiling {
  std::int64_t rows = 0, columns = 0;  ///< rows and columns of tiles in one image
  std::int64_t count = 0;              ///< tiles in the batch
};

/// Consecutive tiles of a batch.
struct TileRange {
  std::int64_t first = 0, count = 0;
};

/// One matrix of [panel][entry][lane] for each frequency. An entry is a tile or an input channel.
/// In the transformed maps of a convolution of stride 2, several products of a tile use the weights
/// of a frequency; each of them has its own entry.
struct Panels {
  float* data = nullptr;
  std::int64_t entries = 0;  ///< per panel; or tiles
  std::int64_t panels = 0;
  int vector_lanes = 8;
  bool is_strided_map = false;

  /// One cache line more than the matrix; otherwise all frequencies of an entry would map to the
  /// same cache set.
  static constexpr std::int64_t gap = 16;

  std::int64_t lanes() const { return panel_lanes(vector_lanes); }
  /// Returns the entries of a tile at a frequency.
  std::int64_t copies(std::int64_t frequency) const {
    if (!is_strided_map) return 1;
    return (frequency / 6 == 5 ? 4 : 1) * (frequency % 6 == 5 ? 4 : 1);
  }
  std::int64_t panel_stride() const { return entries * lanes(); }
  std::int64_t panel_stride(std::int64_t frequency) const {
    return copies(frequency) * panel_stride();
  }
  /// Returns the number of products of a tile.
  std::int64_t products() const { return is_strided_map ? 81 : frequencies; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(products() * panels * panel_stride() + frequencies * gap) *
           sizeof(float);
  }
  float* at(std::int64_t frequency, std::int64_t panel, std::int64_t entry) const {
    const std::int64_t row = frequency / 6, column = frequency % 6;
    const std::int64_t before = !is_strided_map ? frequency : row * 9 + (row == 5 ? 4 : 1) * column;
    return data + before * panels * panel_stride() + frequency * gap +
           (panel * entries + entry) * copies(frequency) * lanes();
  }
};

/// The weights of one convolution, plain KCRS, as a direction uses them: sums run over `depth`
/// channels, and the results are computed for `panel_lanes` channels at a time.
struct Kernels {
  float* data = nullptr;
  std::int64_t depth = 0;
  std::int64_t depth_stride = 0, lane_stride = 0;  ///< floats from one channel to the next
  bool rotated = false;                            ///< by 180 degrees
};

}  // namespace lockstep::backend::cpu::winograd
