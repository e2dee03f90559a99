#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels.hpp"
#include "tiles.hpp"
#include "vectors.hpp"

// The part of the kernels that does not depend on how cells are multiplied.

namespace lockstep::backend::cpu::cells {

/// Fetches the lines [lines.first, lines.last) to the L2 cache.
inline void prefetch(const NextCells& next, Range lines) {
  constexpr std::int64_t line = 64 / sizeof(core::BFloat16);
  while (lines.first < lines.last) {
    const std::int64_t block = lines.first / next.block_lines;
    const std::int64_t begin = block * next.block_lines;
    const std::int64_t end = std::min(lines.last, begin + next.block_lines);
    const core::BFloat16* const from = next.first + block * next.block_stride;
    for (; lines.first < end; ++lines.first)
      __builtin_prefetch(from + (lines.first - begin) * line, 0, 2);
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

/// Copies, conversions and transposes with the vectors of one instruction set.
template <class Vectors>
class VectorKernels : public Kernels {
 public:
  void pack(const MapRow& row, core::BFloat16* cells) const override { Vectors::pack(row, cells); }
  void interleave(const core::BFloat16* plain, core::BFloat16* interleaved) const override {
    Vectors::interleave(plain, interleaved);
  }
  void transpose(const core::BFloat16* plain, core::BFloat16* transposed) const override {
    Vectors::transpose(plain, transposed);
  }
  void add_images(const core::BFloat16* plain, float* sums) const override {
    Vectors::add_images(plain, sums);
  }
  void pack_weights(const WeightMatrix& weights, std::int64_t row_block, std::int64_t column_block,
                    core::BFloat16* cells, std::int64_t tap_stride) const override {
    Vectors::pack_weights(weights, row_block, column_block, cells, tap_stride);
  }

  void transform_input(const PatchCells& patch, core::BFloat16* to,
                       std::int64_t stride) const override {
    Vectors::transform_input(patch, to, stride);
  }
  void transform_gradient(const GradientPatchCells& patch, core::BFloat16* to,
                          std::int64_t stride) const override {
    Vectors::transform_gradient(patch, to, stride);
  }
  void transform_weights(const WeightMatrix& weights, std::int64_t row_block,
                         std::int64_t column_block, bool is_rotated, core::BFloat16* to,
                         std::int64_t stride) const override {
    Vectors::transform_weights(weights, row_block, column_block, is_rotated, to, stride);
  }
  void transform_output(const float* from, std::int64_t stride,
                        const OutputTile& tile) const override {
    Vectors::transform_output(from, stride, tile);
  }
  void transform_weight_gradient(const float* from, std::int64_t stride, std::int64_t channels,
                                 float* to) const override {
    Vectors::transform_weight_gradient(from, stride, channels, to);
  }
};

}  // namespace lockstep::backend::cpu::cells
