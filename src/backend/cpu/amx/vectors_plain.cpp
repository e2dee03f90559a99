#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>

#include "tiles.hpp"
#include "vectors.hpp"

namespace lockstep::backend::cpu::amx {

using core::BFloat16;

namespace {

/// Rounds as VCVTNE2PS2BF16 does, which reads denormals as zero.
BFloat16 rounded(float value) {
  return core::to_bfloat16(std::fabs(value) < FLT_MIN ? std::copysign(0.0F, value) : value);
}

}  // namespace

void PlainVectors::pack(const MapRow& row, BFloat16* cells) {
  const std::int64_t blocks = (row.channels + cell_channels - 1) / cell_channels;
  std::fill_n(cells, row.pixels * blocks * cell_size, BFloat16{});
  for (std::int64_t image = 0; image < row.images; ++image) {
    for (std::int64_t pixel = 0; pixel < row.pixels; ++pixel) {
      for (std::int64_t channel = 0; channel < row.channels; ++channel)
        cells[(pixel * blocks + channel / cell_channels) * cell_size + image * cell_channels +
              channel % cell_channels] =
            row.first[image * row.image_stride + pixel * row.channels + channel];
    }
  }
}

void PlainVectors::interleave(const BFloat16* plain, BFloat16* interleaved) {
  for (std::int64_t image = 0; image < cell_images; ++image) {
    for (std::int64_t channel = 0; channel < cell_channels; ++channel)
      interleaved[channel / 16 * tile_halves + image / 2 * 32 + channel % 16 * 2 + image % 2] =
          plain[image * cell_channels + channel];
  }
}

void PlainVectors::transpose(const BFloat16* plain, BFloat16* transposed) {
  for (std::int64_t image = 0; image < cell_images; ++image) {
    for (std::int64_t channel = 0; channel < cell_channels; ++channel)
      transposed[channel * cell_images + image] = plain[image * cell_channels + channel];
  }
}

void PlainVectors::add_images(const BFloat16* plain, float* sums) {
  for (std::int64_t image = 0; image < cell_images; ++image) {
    for (std::int64_t channel = 0; channel < cell_channels; ++channel)
      sums[channel] += core::to_float(plain[image * cell_channels + channel]);
  }
}

void PlainVectors::pack_weights(const WeightMatrix& weights, std::int64_t row_block,
                                std::int64_t column_block, BFloat16* cells,
                                std::int64_t tap_stride) {
  for (std::int64_t tap = 0; tap < weights.taps; ++tap) {
    for (std::int64_t i = 0; i < cell_channels; ++i) {
      for (std::int64_t j = 0; j < cell_channels; ++j) {
        const std::int64_t row = row_block * cell_channels + i;
        const std::int64_t column = column_block * cell_channels + j;
        const bool exists = row < weights.rows && column < weights.columns;
        cells[tap * tap_stride + j / 16 * tile_halves + i / 2 * 32 + j % 16 * 2 + i % 2] =
            exists
                ? rounded(
                      weights.flat[row * weights.row_stride + column * weights.column_stride + tap])
                : BFloat16{};
      }
    }
  }
}

void PlainVectors::write_pixel(const float* sums, const MapRow& row, std::int64_t offset, bool) {
  for (std::int64_t image = 0; image < row.images; ++image) {
    for (std::int64_t channel = 0; channel < row.channels; ++channel)
      row.first[offset + image * row.image_stride + channel] = rounded(
          sums[(image / 16 * 2 + channel / 16) * tile_floats + image % 16 * 16 + channel % 16]);
  }
}

}  // namespace lockstep::backend::cpu::amx
