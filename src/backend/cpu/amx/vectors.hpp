#pragma once

#include <cstdint>

#include "kernels.hpp"

// Copies, conversions and transposes of cells, as two classes with the same functions and the same
// results: one for processors with AVX-512, one for all processors.

namespace lockstep::backend::cpu::amx {

struct Avx512Vectors {
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
  static void write_pixel(const float* sums, const MapRow& row, std::int64_t offset, bool streams);
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
  static void write_pixel(const float* sums, const MapRow& row, std::int64_t offset, bool streams);
  static void finish_streams() {}
};

}  // namespace lockstep::backend::cpu::amx
