#pragma once

#include <cstdint>

#include "kernels.hpp"

// Copies, conversions and transposes of cells, as two classes with the same functions and the same
// results: one for processors with AVX-512 and AVX512-BF16, one for all processors.

namespace lockstep::backend::cpu::cells {

struct Avx512Vectors {
  static bool are_supported();  ///< by this processor
  static void pack(const MapRow& row, core::BFloat16* cells);
  static void interleave(const core::BFloat16* plain, core::BFloat16* interleaved);
  static void transpose(const core::BFloat16* plain, core::BFloat16* transposed);
  static void add_images(const core::BFloat16* plain, float* sums);
  static void pack_weights(const WeightMatrix& weights, std::int64_t row_block,
                           std::int64_t column_block, core::BFloat16* cells,
                           std::int64_t tap_stride);
  /// Rounds sums [2 halves of the images][2 halves of the channels][16][16] to bfloat16 and writes
  /// them to one pixel of the images of `row`, to the first `row.channels` channels. `streams`: use
  /// non-temporal stores.
  static void write_pixel(const float* sums, const MapRow& row, std::int64_t offset, bool streams,
                          PartialSums* statistics);
  static void transform_input(const PatchCells& patch, core::BFloat16* to, std::int64_t stride);
  static void transform_gradient(const GradientPatchCells& patch, core::BFloat16* to,
                                 std::int64_t stride);
  static void transform_weights(const WeightMatrix& weights, std::int64_t row_block,
                                std::int64_t column_block, bool is_rotated, core::BFloat16* to,
                                std::int64_t stride);
  static void transform_output(const float* from, std::int64_t stride, const OutputTile& tile);
  static void transform_weight_gradient(const float* from, std::int64_t stride,
                                        std::int64_t channels, float* to);
  /// Makes non-temporal stores visible to other threads.
  static void finish_streams();
};

struct PlainVectors {
  static void pack(const MapRow& row, core::BFloat16* cells);
  static void interleave(const core::BFloat16* plain, core::BFloat16* interleaved);
  static void transpose(const core::BFloat16* plain, core::BFloat16* transposed);
  static void add_images(const core::BFloat16* plain, float* sums);
  static void pack_weights(const WeightMatrix& weights, std::int64_t row_block,
                           std::int64_t column_block, core::BFloat16* cells,
                           std::int64_t tap_stride);
  static void write_pixel(const float* sums, const MapRow& row, std::int64_t offset, bool streams,
                          PartialSums* statistics);
  static void transform_input(const PatchCells& patch, core::BFloat16* to, std::int64_t stride);
  static void transform_gradient(const GradientPatchCells& patch, core::BFloat16* to,
                                 std::int64_t stride);
  static void transform_weights(const WeightMatrix& weights, std::int64_t row_block,
                                std::int64_t column_block, bool is_rotated, core::BFloat16* to,
                                std::int64_t stride);
  static void transform_output(const float* from, std::int64_t stride, const OutputTile& tile);
  static void transform_weight_gradient(const float* from, std::int64_t stride,
                                        std::int64_t channels, float* to);
  static void finish_streams() {}
};

}  // namespace lockstep::backend::cpu::cells
