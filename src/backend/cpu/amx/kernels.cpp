#include "kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "tiles.hpp"
#include "vectors.hpp"

namespace lockstep::backend::cpu::amx {

using core::BFloat16;

namespace {

/// Fetches the lines [lines.first, lines.last) to the L2 cache.
void prefetch(const NextCells& next, Range lines) {
  constexpr std::int64_t line = 64 / sizeof(BFloat16);
  while (lines.first < lines.last) {
    const std::int64_t block = lines.first / next.block_lines;
    const std::int64_t begin = block * next.block_lines;
    const std::int64_t end = std::min(lines.last, begin + next.block_lines);
    const BFloat16* const from = next.first + block * next.block_stride;
    for (; lines.first < end; ++lines.first)
      __builtin_prefetch(from + (lines.first - begin) * line, 0, 2);
  }
}

/// Computes the sums of one pixel of an output row in four tiles: 2 halves of the images by 2
/// halves of the channels.
template <class Tiles>
void multiply_pixel(Tiles& tiles, const OutputRow& row, const AxisTaps& columns, float* sums) {
  if (row.bias != nullptr) {  // stride 0: the same row 16 times
    tiles.template load<0>(row.bias, 0);
    tiles.template load<1>(row.bias + tile_rows, 0);
    tiles.template load<2>(row.bias, 0);
    tiles.template load<3>(row.bias + tile_rows, 0);
  } else {
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
  }
  for (std::int64_t i = 0; i < row.input_count; ++i) {
    const auto& input = row.inputs[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < columns.count; ++j) {
      const AxisTap& column = columns.taps[static_cast<std::size_t>(j)];
      const BFloat16* a = input.cells + column.position * row.strides.pixel;
      const BFloat16* b =
          row.weights + (input.tap_row * row.kernel + column.tap) * row.blocks * cell_size;
      for (std::int64_t block = 0; block < row.blocks;
           ++block, a += row.strides.block, b += cell_size) {
        tiles.template load<4>(a);
        tiles.template load<6>(b);
        tiles.template multiply<0, 4, 6>();
        tiles.template load<7>(b + tile_halves);
        tiles.template multiply<1, 4, 7>();
        tiles.template load<5>(a + tile_halves);
        tiles.template multiply<2, 5, 6>();
        tiles.template multiply<3, 5, 7>();
      }
    }
  }
  tiles.template store<0>(sums);
  tiles.template store<1>(sums + tile_floats);
  tiles.template store<2>(sums + 2 * tile_floats);
  tiles.template store<3>(sums + 3 * tile_floats);
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

template <class Tiles, std::size_t... Tile>
void load_sums(Tiles& tiles, const GradientRows& rows, const float* sums,
               std::index_sequence<Tile...>) {
  if (rows.adds) {
    (tiles.template load<int{Tile}>(sums + Tile * tile_floats), ...);
  } else {
    (tiles.template zero<int{Tile}>(), ...);
  }
}

template <class Tiles, std::size_t... Tile>
void store_sums(const Tiles& tiles, float* sums, std::index_sequence<Tile...>) {
  (tiles.template store<int{Tile}>(sums + Tile * tile_floats), ...);
}

template <int Kernel, class Tiles>
void multiply_rows(Tiles& tiles, const GradientRows& rows) {
  constexpr std::make_index_sequence<2 * Kernel> all;
  const std::int64_t source_stride = rows.source_blocks * cell_size;
  load_sums(tiles, rows, rows.sums, all);
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
class KernelsOf : public Kernels {
 public:
  bool is_emulated() const override { return std::is_same_v<Tiles, EmulatedTiles>; }

  void enter() const override { Tiles::configure(); }
  void leave() const override {
    Vectors::finish_streams();
    Tiles::release();
  }

  void pack(const MapRow& row, BFloat16* cells) const override { Vectors::pack(row, cells); }
  void interleave(const BFloat16* plain, BFloat16* interleaved) const override {
    Vectors::interleave(plain, interleaved);
  }
  void transpose(const BFloat16* plain, BFloat16* transposed) const override {
    Vectors::transpose(plain, transposed);
  }
  void add_images(const BFloat16* plain, float* sums) const override {
    Vectors::add_images(plain, sums);
  }
  void pack_weights(const WeightMatrix& weights, std::int64_t row_block, std::int64_t column_block,
                    BFloat16* cells, std::int64_t tap_stride) const override {
    Vectors::pack_weights(weights, row_block, column_block, cells, tap_stride);
  }

  void multiply(const OutputRow& row) const override {
    Tiles tiles;
    alignas(64) float sums[4 * tile_floats];
    for (std::int64_t pixel = 0; pixel < row.to.pixels; ++pixel) {
      prefetch(row.next, part_of(row.next.lines, pixel, row.to.pixels));
      multiply_pixel(tiles, row, (*row.columns)[static_cast<std::size_t>(pixel)], sums);
      Vectors::write_pixel(sums, row.to, pixel * row.to.pixel_stride, row.streams);
    }
  }

  void multiply(const GradientRows& rows) const override {
    Tiles tiles;
    if (rows.kernel == 3) {
      multiply_rows<3>(tiles, rows);
    } else {
      multiply_rows<1>(tiles, rows);
    }
  }
};

}  // namespace

std::unique_ptr<Kernels> make_hardware_kernels() {
  if (!has_hardware_tiles()) return nullptr;
  return std::make_unique<KernelsOf<HardwareTiles, Avx512Vectors>>();
}

std::unique_ptr<Kernels> make_emulated_kernels() {
  return std::make_unique<KernelsOf<EmulatedTiles, PlainVectors>>();
}

std::unique_ptr<Kernels> make_kernels() {
  auto kernels = make_hardware_kernels();
  return kernels != nullptr ? std::move(kernels) : make_emulated_kernels();
}

}  // namespace lockstep::backend::cpu::amx
