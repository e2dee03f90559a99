// SPDX-License-Identifier: BSD-3-Clause
// Kernels with tiles, of the processor or emulated.

#include <cstddef>
#include <type_traits>
#include <utility>

#include "cell_vectors.hpp"
#include "tiles.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// Adds the product of two cells to four tiles: 2 halves of the rows by 2 halves of the columns. If
/// `Halves` is 1, the tiles of the second half of the rows are left as they are.
template <int Halves, class Tiles>
[[gnu::always_inline]] inline void multiply_cell(Tiles& tiles, const BFloat16* a,
                                                 const BFloat16* b) {
  tiles.template load<4>(a);
  tiles.template load<6>(b);
  tiles.template multiply<0, 4, 6>();
  tiles.template load<7>(b + tile_halves);
  tiles.template multiply<1, 4, 7>();
  if constexpr (Halves == 1) return;
  tiles.template load<5>(a + tile_halves);
  tiles.template multiply<2, 5, 6>();
  tiles.template multiply<3, 5, 7>();
}

/// Reads the sums to which products are added, or sets them to zero.
template <class Tiles, std::size_t... Tile>
void load_sums(Tiles& tiles, bool adds, const float* sums, std::index_sequence<Tile...>) {
  if (adds) {
    (tiles.template load<int{Tile}>(sums + Tile * tile_floats), ...);
  } else {
    (tiles.template zero<int{Tile}>(), ...);
  }
}

template <class Tiles, std::size_t... Tile>
void store_sums(const Tiles& tiles, float* sums, std::index_sequence<Tile...>) {
  (tiles.template store<int{Tile}>(sums + Tile * tile_floats), ...);
}

/// Computes the sums of one pixel of an output row, for one or both halves of the images.
template <int Halves, class Tiles>
void multiply_pixel(Tiles& tiles, const OutputRow& row, const AxisTaps& columns, float* sums) {
  if (row.bias != nullptr) {  // stride 0: the same row 16 times
    tiles.template load<0>(row.bias, 0);
    tiles.template load<1>(row.bias + tile_rows, 0);
    tiles.template load<2>(row.bias, 0);
    tiles.template load<3>(row.bias + tile_rows, 0);
  } else {
    load_sums(tiles, false, sums, std::make_index_sequence<4>());
  }
  for (std::int64_t i = 0; i < row.input_count; ++i) {
    const auto& input = row.inputs[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < columns.count; ++j) {
      const AxisTap& column = columns.taps[static_cast<std::size_t>(j)];
      const BFloat16* a = input.cells + column.position * row.strides.pixel;
      const BFloat16* b =
          row.weights + (input.tap_row * row.kernel + column.tap) * row.blocks * cell_size;
      for (std::int64_t block = 0; block < row.blocks;
           ++block, a += row.strides.block, b += cell_size)
        multiply_cell<Halves>(tiles, a, b);
    }
  }
  store_sums(tiles, sums, std::make_index_sequence<4>());
}

template <int Halves, class Tiles>
void multiply_cells(Tiles& tiles, const CellProducts& products) {
  constexpr std::make_index_sequence<4> all;
  load_sums(tiles, products.adds, products.sums, all);
  const BFloat16* a = products.a;
  const BFloat16* b = products.b;
  for (std::int64_t i = 0; i < products.count; ++i, a += products.a_stride, b += products.b_stride)
    multiply_cell<Halves>(tiles, a, b);
  store_sums(tiles, products.sums, all);
}

/// Multiplies one pixel of the gradient with the source pixels of all columns of the kernel. The
/// tile with index 2 * tap + half accumulates the sums of one half of the gradient's channels.
template <class Tiles>
void multiply_columns(Tiles& tiles, const BFloat16* gradient, const BFloat16* source,
                      std::int64_t source_stride, const AxisTaps& columns) {
  const auto with_half = [&]<int Half>(std::integral_constant<int, Half>) {
    tiles.template load<6>(gradient + Half * tile_halves);
    for (std::int64_t j = 0; j < columns.count; ++j) {
      const AxisTap& column = columns.taps[static_cast<std::size_t>(j)];
      tiles.template load<7>(source + column.position * source_stride);
      switch (column.tap) {
        case 0: tiles.template multiply<Half, 6, 7>(); break;
        case 1: tiles.template multiply<2 + Half, 6, 7>(); break;
        default: tiles.template multiply<4 + Half, 6, 7>(); break;
      }
    }
  };
  with_half(std::integral_constant<int, 0>{});
  with_half(std::integral_constant<int, 1>{});
}

template <int Kernel, class Tiles>
void multiply_rows(Tiles& tiles, const GradientRows& rows) {
  constexpr std::make_index_sequence<2 * Kernel> all;
  const std::int64_t source_stride = rows.source_blocks * cell_size;
  load_sums(tiles, rows.adds, rows.sums, all);
  for (const auto& row : *rows.rows) {
    const BFloat16* gradient = row.gradient;
    for (const AxisTaps& columns : *rows.columns) {
      multiply_columns(tiles, gradient, row.source, source_stride, columns);
      gradient += rows.gradient_blocks * cell_size;
    }
  }
  store_sums(tiles, rows.sums, all);
}

template <class Tiles, class Vectors>
class TileKernels : public Vectors {
 public:
  std::string_view instructions() const override {
    return std::is_same_v<Tiles, EmulatedTiles> ? "emulated amx" : "amx";
  }

  void enter() const override { Tiles::configure(); }
  void leave() const override {
    Vectors::finish_streams();
    Tiles::release();
  }

  void multiply(const OutputRow& row) const override {
    Tiles tiles;
    write_row<Vectors>(row, [&](const AxisTaps& columns, float* sums) {
      if (row.to.images > tile_rows) {
        multiply_pixel<2>(tiles, row, columns, sums);
      } else {
        multiply_pixel<1>(tiles, row, columns, sums);
      }
    });
  }

  void multiply(const GradientRows& rows) const override {
    Tiles tiles;
    if (rows.kernel == 3) {
      multiply_rows<3>(tiles, rows);
    } else {
      multiply_rows<1>(tiles, rows);
    }
  }

  void multiply(const CellProducts& products) const override {
    Tiles tiles;
    if (products.rows > tile_rows) {
      multiply_cells<2>(tiles, products);
    } else {
      multiply_cells<1>(tiles, products);
    }
  }
};

}  // namespace

std::unique_ptr<Kernels> make_amx_kernels() {
  if (!Avx512Vectors::are_supported() || !has_hardware_tiles()) return nullptr;
  return std::make_unique<TileKernels<HardwareTiles, Avx512Vectors>>();
}

std::unique_ptr<Kernels> make_emulated_kernels() {
  return std::make_unique<TileKernels<EmulatedTiles, Kernels>>();
}

}  // namespace lockstep::backend::cpu::cells
