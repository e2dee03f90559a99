// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lockstep/core/data_type.hpp"

// The AMX tile instructions that the convolution kernels use, as two classes with the same
// functions: one issues the instructions (Intel SDM, volume 2, TILELOADD and TDPBF16PS), the other
// computes the same bits on any processor. A tile has 16 rows of 64 bytes.

namespace lockstep::backend::cpu::cells {

/// Rows of a tile; also the number of float32 values in a row.
constexpr std::int64_t tile_rows = 16;
constexpr std::int64_t tile_floats = tile_rows * tile_rows;
constexpr std::int64_t tile_halves = 2 * tile_floats;  ///< bfloat16 values of a tile
constexpr std::int64_t tile_stride = 64;               ///< bytes of a row

/// Returns true if this processor has the instructions and the operating system lets this process
/// use them.
bool has_hardware_tiles();

/// The tiles of the processor. A thread must call `configure` before the other functions, and
/// `release` when it is done, because a thread with configured tiles keeps the processor out of its
/// deeper idle states.
class HardwareTiles {
 public:
  static void configure();
  static void release();

  template <int Tile>
  [[gnu::always_inline]] void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
  }
  template <int Tile>
  [[gnu::always_inline]] void load(const void* from, std::int64_t stride = tile_stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
  }
  template <int Tile>
  [[gnu::always_inline]] void store(void* to) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(to), "r"(tile_stride), "i"(Tile)
                 : "memory");
  }
  /// Computes Sum += A B: A has 16 x 32 bfloat16 values, B has 16 pairs of rows of 16 columns, and
  /// Sum has 16 x 16 float32 values.
  template <int Sum, int A, int B>
  [[gnu::always_inline]] void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(A), "i"(B));
  }
};

/// Computes the same results without the instructions, about a thousand times slower.
class EmulatedTiles {
 public:
  static void configure() {}
  static void release() {}

  template <int Tile>
  void zero() {
    tiles_[Tile] = {};
  }
  template <int Tile>
  void load(const void* from, std::int64_t stride = tile_stride) {
    for (std::int64_t row = 0; row < tile_rows; ++row)
      std::memcpy(&tiles_[Tile][static_cast<std::size_t>(row * tile_rows)],
                  static_cast<const std::byte*>(from) + row * stride, tile_stride);
  }
  template <int Tile>
  void store(void* to) const {
    std::memcpy(to, &tiles_[Tile], sizeof(tiles_[Tile]));
  }
  template <int Sum, int A, int B>
  void multiply() {
    multiply(tiles_[Sum], tiles_[A], tiles_[B]);
  }

 private:
  using Tile = std::array<std::uint32_t, tile_floats>;
  static void multiply(Tile& sum, const Tile& a, const Tile& b);

  std::array<Tile, 8> tiles_{};
};

}  // namespace lockstep::backend::cpu::cells
