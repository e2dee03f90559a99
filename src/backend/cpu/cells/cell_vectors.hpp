// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels.hpp"
#include "tiles.hpp"

// The part of the kernels that does not depend on how cells are multiplied.

namespace lockstep::backend::cpu::cells {

/// Copies, conversions, transposes and transforms for processors with AVX-512, AVX512-BF16 and
/// AVX512-VNNI. The results are those of the functions of `Kernels`.
class Avx512Vectors : public Kernels {
 public:
  static bool are_supported();  ///< by this processor

  const Int16Kernels& int16(Int16Scheme scheme) const override;

  void interleave(const core::BFloat16* plain, std::int64_t images,
                  core::BFloat16* interleaved) const override;
  void transpose(const core::BFloat16* plain, std::int64_t images,
                 core::BFloat16* transposed) const override;
  void add_images(const core::BFloat16* plain, std::int64_t images, float* sums) const override;
  void pack_weights(const WeightMatrix& weights, std::int64_t row_block, std::int64_t column_block,
                    core::BFloat16* cells, std::int64_t tap_stride) const override;
  void transform_input(const PatchCells& patch, Range values, core::BFloat16* to,
                       std::int64_t stride) const override;
  void transform_gradient(const GradientPatchCells& patch, core::BFloat16* to,
                          std::int64_t stride) const override;
  void transform_weights(const WeightMatrix& weights, std::int64_t row_block,
                         std::int64_t column_block, bool is_rotated, core::BFloat16* to,
                         std::int64_t stride) const override;
  void transform_output(const float* from, std::int64_t stride,
                        const OutputTile& tile) const override;
  void transform_weight_gradient(const float* from, std::int64_t stride, std::int64_t channels,
                                 float* to) const override;

  static void write_pixel(const float* sums, const MapRow& row, std::int64_t offset, bool streams,
                          PartialSums* statistics);
  static void finish_streams();
};

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
