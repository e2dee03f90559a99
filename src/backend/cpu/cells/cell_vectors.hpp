// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "kernels.hpp"

// The part of the kernels that does not depend on how cells are multiplied (copies, conversions,
// transposes and transforms), as two classes with the same results: one for processors with AVX-512
// and AVX512-BF16, one for all processors. Kernels with products derive from one of them.

namespace lockstep::backend::cpu::cells {

class Avx512Vectors : public Kernels {
 public:
  static bool are_supported();  ///< by this processor

  void interleave(const core::BFloat16* plain, std::int64_t images,
                  core::BFloat16* interleaved) const override;
  void transpose(const core::BFloat16* plain, std::int64_t images,
                 core::BFloat16* transposed) const override;
  void add_images(const core::BFloat16* plain, std::int64_t images, float* sums) const override;
  void pack_weights(const WeightMatrix& weights, std::int64_t row_block, std::int64_t column_block,
                    core::BFloat16* cells, std::int64_t tap_stride) const override;
  void transform_input(const PatchCells& patch, std::int64_t images, core::BFloat16* to,
                       std::int64_t stride) const override;
  void transform_interleaved(const PatchCells& patch, std::int64_t images, core::BFloat16* to,
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

  /// Rounds sums [2 halves of the images][2 halves of the channels][16][16] to bfloat16 and writes
  /// them to one pixel of the images of `row`. `streams`: use non-temporal stores.
  static void write_pixel(const float* sums, const MapRow& row, std::int64_t offset, bool streams,
                          PartialSums* statistics);
  /// Makes non-temporal stores visible to other threads.
  static void finish_streams();
};

class PlainVectors : public Kernels {
 public:
  void interleave(const core::BFloat16* plain, std::int64_t images,
                  core::BFloat16* interleaved) const override;
  void transpose(const core::BFloat16* plain, std::int64_t images,
                 core::BFloat16* transposed) const override;
  void add_images(const core::BFloat16* plain, std::int64_t images, float* sums) const override;
  void pack_weights(const WeightMatrix& weights, std::int64_t row_block, std::int64_t column_block,
                    core::BFloat16* cells, std::int64_t tap_stride) const override;
  void transform_input(const PatchCells& patch, std::int64_t images, core::BFloat16* to,
                       std::int64_t stride) const override;
  void transform_interleaved(const PatchCells& patch, std::int64_t images, core::BFloat16* to,
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
  static void finish_streams() {}
};

}  // namespace lockstep::backend::cpu::cells
