// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "avx512.hpp"
#include "cell_vectors.hpp"
#include "f2x2_matrices.hpp"
#include "tiles.hpp"

// The transforms of Winograd's algorithm with AVX-512.

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// Transforms the values [part.first, part.last) of the cells of a patch.
template <class Transform, class Patch>
LOCKSTEP_AVX512 void transform_cells(const Patch& patch, Range part, BFloat16* to,
                                     std::int64_t stride) {
  for (std::int64_t i = part.first; i < part.last; i += 2 * lanes) {
    Square<Floats, Transform::in> low, high;
#pragma GCC unroll 16
    for (std::size_t at = 0; at < patch.size(); ++at) {
      const Widened values = widened(load(patch[at] + i));
      low[at / Transform::in][at % Transform::in] = values.low;
      high[at / Transform::in][at % Transform::in] = values.high;
    }
    const auto to_low = transformed<Transform>(low);
    const auto to_high = transformed<Transform>(high);
#pragma GCC unroll 16
    for (std::size_t f = 0; f < frequencies; ++f)
      store(to + static_cast<std::int64_t>(f) * stride + i,
            narrowed(to_low[f / 4][f % 4], to_high[f / 4][f % 4]));
  }
}

}  // namespace

LOCKSTEP_AVX512 void Avx512Vectors::transform_input(const PatchCells& patch, std::int64_t images,
                                                    BFloat16* to, std::int64_t stride) const {
  transform_cells<InputTransform>(patch, {0, images * cell_channels}, to, stride);
}

LOCKSTEP_AVX512 void Avx512Vectors::transform_interleaved(const PatchCells& patch,
                                                          std::int64_t images, BFloat16* to,
                                                          std::int64_t stride) const {
  for (std::int64_t half = 0; half < cell_size; half += tile_halves) {
    const std::int64_t last = half + ceil_div(images, 2) * 32;
    transform_cells<InputTransform>(patch, {half, last}, to, stride);
    for (std::int64_t f = 0; f < frequencies; ++f)
      std::fill(to + f * stride + last, to + f * stride + half + tile_halves, BFloat16{});
  }
}

LOCKSTEP_AVX512 void Avx512Vectors::transform_gradient(const GradientPatchCells& patch,
                                                       BFloat16* to, std::int64_t stride) const {
  transform_cells<GradientTransform>(patch, {0, cell_size}, to, stride);
}

LOCKSTEP_AVX512 void Avx512Vectors::transform_weights(const WeightMatrix& weights,
                                                      std::int64_t row_block,
                                                      std::int64_t column_block, bool is_rotated,
                                                      BFloat16* to, std::int64_t stride) const {
  const __m512i pairs = interleaving_indices(0, 16);
  for (std::int64_t half = 0; half < 2; ++half) {
    const std::int64_t column = column_block * 32 + half * 16;
    for (std::int64_t pair = 0; pair < 16; ++pair, to += 32) {
      Square<Floats, 4> values[2];
#pragma GCC unroll 2
      for (std::int64_t i = 0; i < 2; ++i) {
        const std::int64_t row = row_block * 32 + 2 * pair + i;
        const auto kernels =
            load_kernels(weights.flat + row * weights.row_stride + column * weights.column_stride,
                         weights.column_stride, row < weights.rows ? weights.columns - column : 0);
        Square<Floats, 3> ordered;
#pragma GCC unroll 9
        for (std::size_t tap = 0; tap < taps; ++tap)
          ordered[tap / 3][tap % 3] = is_rotated ? kernels[taps - 1 - tap] : kernels[tap];
        values[i] = transformed<WeightTransform>(ordered);
      }
#pragma GCC unroll 16
      for (std::size_t f = 0; f < frequencies; ++f)
        store(to + static_cast<std::int64_t>(f) * stride,
              _mm512_permutexvar_epi16(pairs,
                                       narrowed(values[0][f / 4][f % 4], values[1][f / 4][f % 4])));
    }
  }
}

LOCKSTEP_AVX512 void Avx512Vectors::transform_output(const float* from, std::int64_t stride,
                                                     const OutputTile& tile) const {
  const MapRow& row = tile.first_row;
  StatisticsRegisters registers(tile.statistics);
  __m512 bias[2] = {};
  if (tile.bias != nullptr) {
    bias[0] = _mm512_loadu_ps(tile.bias);
    bias[1] = _mm512_loadu_ps(tile.bias + lanes);
  }
  for (std::int64_t image = 0; image < row.images; ++image) {
    Square<Floats, 2> halves[2];
#pragma GCC unroll 2
    for (std::int64_t half = 0; half < 2; ++half) {
      Square<Floats, 4> sums;
      const float* at = from + (image / 16 * 2 + half) * tile_floats + image % 16 * 16;
#pragma GCC unroll 16
      for (std::size_t f = 0; f < frequencies; ++f, at += stride)
        sums[f / 4][f % 4] = _mm512_load_ps(at);
      halves[half] = transformed<OutputTransform>(sums);
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(tile.rows); ++i) {
      for (std::size_t j = 0; j < static_cast<std::size_t>(row.pixels); ++j) {
        BFloat16* const to = row.first + image * cell_channels +
                             static_cast<std::int64_t>(i) * tile.row_stride +
                             static_cast<std::int64_t>(j) * row.pixel_stride;
        const __m512 low = halves[0][i][j] + bias[0], high = halves[1][i][j] + bias[1];
        const __m512i values = narrowed(low, high);
        registers.add(values);
        if (tile.streams) {
          _mm512_stream_si512(reinterpret_cast<__m512i*>(to), values);
        } else {
          store(to, values);
        }
      }
    }
  }
  registers.store();
}

LOCKSTEP_AVX512 void Avx512Vectors::transform_weight_gradient(const float* from,
                                                              std::int64_t stride,
                                                              std::int64_t channels,
                                                              float* to) const {
  Square<Floats, 4> sums;
#pragma GCC unroll 16
  for (std::size_t f = 0; f < frequencies; ++f)
    sums[f / 4][f % 4] = _mm512_load_ps(from + static_cast<std::int64_t>(f) * stride);
  const auto values = transformed<WeightGradientTransform>(sums);
  __m512i rows[16] = {};
#pragma GCC unroll 9
  for (std::size_t tap = 0; tap < taps; ++tap)
    rows[tap] = _mm512_castps_si512(values[tap / 3][tap % 3]);
  transpose_pairs(rows);
#pragma GCC unroll 16
  for (std::int64_t channel = 0; channel < 16; ++channel) {
    if (channel >= channels) break;
    prefetch_ahead<1>(to + channel * taps, next_block);
    _mm512_mask_storeu_ps(to + channel * taps, all_taps, _mm512_castsi512_ps(rows[channel]));
  }
}

}  // namespace lockstep::backend::cpu::cells
