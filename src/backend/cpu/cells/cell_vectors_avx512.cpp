// SPDX-License-Identifier: BSD-3-Clause
#include "avx512.hpp"
#include "cell_vectors.hpp"
#include "f2x2_matrices.hpp"
#include "int16_kernels.hpp"
#include "tiles.hpp"

// Copies, conversions, transposes and Winograd's transforms of cells with AVX-512.

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// Returns 0, step, 2 step, ...
LOCKSTEP_AVX512 __m512i multiples(int step) {
  return _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                            _mm512_set1_epi32(step));
}

/// A copy of a plain cell in which the images that do not exist are zeros.
struct CompleteCell {
  LOCKSTEP_AVX512 CompleteCell(const BFloat16* plain, std::int64_t images) {
    for (std::int64_t image = 0; image < cell_images; ++image)
      store(values + image * cell_channels,
            image < images ? load(plain + image * cell_channels) : _mm512_setzero_si512());
  }
  alignas(64) BFloat16 values[cell_size];
};

LOCKSTEP_AVX512 void interleave_all(const BFloat16* plain, BFloat16* interleaved) {
  const __m512i lower = interleaving_indices(0), upper = interleaving_indices(16);
  for (std::int64_t pair = 0; pair < 16; ++pair) {
    const __m512i even = load(plain + 2 * pair * cell_channels);
    const __m512i odd = load(plain + (2 * pair + 1) * cell_channels);
    store(interleaved + pair * 32, _mm512_permutex2var_epi16(even, lower, odd));
    store(interleaved + tile_halves + pair * 32, _mm512_permutex2var_epi16(even, upper, odd));
  }
}

LOCKSTEP_AVX512 void transpose_all(const BFloat16* plain, BFloat16* transposed) {
  for (const short half : {short{0}, short{16}}) {
    const __m512i indices = interleaving_indices(half);
    __m512i rows[16];
    for (std::int64_t pair = 0; pair < 16; ++pair)
      rows[pair] = _mm512_permutex2var_epi16(load(plain + 2 * pair * cell_channels), indices,
                                             load(plain + (2 * pair + 1) * cell_channels));
    transpose_pairs(rows);
    for (std::int64_t row = 0; row < 16; ++row)
      store(transposed + (half + row) * cell_images, rows[row]);
  }
}

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

bool Avx512Vectors::are_supported() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
}

const Int16Kernels& Avx512Vectors::int16(Int16Scheme scheme) const {
  return avx512_int16_kernels(scheme);
}

void Avx512Vectors::interleave(const BFloat16* plain, std::int64_t images,
                               BFloat16* interleaved) const {
  if (images == cell_images) return interleave_all(plain, interleaved);
  interleave_all(CompleteCell(plain, images).values, interleaved);
}

void Avx512Vectors::transpose(const BFloat16* plain, std::int64_t images,
                              BFloat16* transposed) const {
  if (images == cell_images) return transpose_all(plain, transposed);
  transpose_all(CompleteCell(plain, images).values, transposed);
}

LOCKSTEP_AVX512 void Avx512Vectors::add_images(const BFloat16* plain, std::int64_t images,
                                               float* sums) const {
  __m512 low = _mm512_loadu_ps(sums), high = _mm512_loadu_ps(sums + lanes);
  for (std::int64_t image = 0; image < images; ++image) {
    const __m512i values = load(plain + image * cell_channels);
    low = _mm512_add_ps(low, widened(_mm512_castsi512_si256(values)));
    high = _mm512_add_ps(high, widened(_mm512_extracti64x4_epi64(values, 1)));
  }
  _mm512_storeu_ps(sums, low);
  _mm512_storeu_ps(sums + lanes, high);
}

LOCKSTEP_AVX512 void Avx512Vectors::pack_weights(const WeightMatrix& weights,
                                                 std::int64_t row_block, std::int64_t column_block,
                                                 BFloat16* cells, std::int64_t tap_stride) const {
  const __m512i steps = multiples(static_cast<int>(weights.column_stride));
  const __m512i pairs = interleaving_indices(0, 16);
  for (std::int64_t half = 0; half < 2; ++half) {
    const std::int64_t column = column_block * 32 + half * 16;
    for (std::int64_t pair = 0; pair < 16; ++pair, cells += 32) {
      const std::int64_t row = row_block * 32 + 2 * pair;
      const std::int64_t even = row < weights.rows ? weights.columns - column : 0;
      const std::int64_t odd = row + 1 < weights.rows ? even : 0;
      const float* from = weights.flat + row * weights.row_stride + column * weights.column_stride;
      if (weights.taps() == taps) {
        const auto first = load_kernels(from, weights.column_stride, even);
        const auto second = load_kernels(from + weights.row_stride, weights.column_stride, odd);
#pragma GCC unroll 9
        for (std::size_t tap = 0; tap < taps; ++tap)
          store(cells + static_cast<std::int64_t>(tap) * tap_stride,
                _mm512_permutexvar_epi16(pairs, narrowed(first[tap], second[tap])));
      } else {
        const __m512 zero = _mm512_setzero_ps();
        for (std::int64_t tap = 0; tap < weights.taps(); ++tap, ++from) {
          const __m512 first = _mm512_mask_i32gather_ps(zero, first_floats(even), steps, from, 4);
          const __m512 second = _mm512_mask_i32gather_ps(zero, first_floats(odd), steps,
                                                         from + weights.row_stride, 4);
          store(cells + tap * tap_stride, _mm512_permutexvar_epi16(pairs, narrowed(first, second)));
        }
      }
    }
  }
}

LOCKSTEP_AVX512 void Avx512Vectors::write_pixel(const float* sums, const MapRow& row,
                                                std::int64_t offset, bool streams,
                                                PartialSums* statistics) {
  StatisticsRegisters registers(statistics);
  BFloat16* to = row.first + offset;
  for (std::int64_t image = 0; image < row.images; ++image, to += cell_channels) {
    const float* from = sums + image / 16 * 2 * tile_floats + image % 16 * 16;
    const __m512 low = _mm512_load_ps(from), high = _mm512_load_ps(from + tile_floats);
    const __m512i values = narrowed(low, high);
    registers.add(values);
    if (streams) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), values);
    } else {
      store(to, values);
    }
  }
  registers.store();
}

LOCKSTEP_AVX512 void Avx512Vectors::finish_streams() { _mm_sfence(); }

LOCKSTEP_AVX512 void Avx512Vectors::transform_input(const PatchCells& patch, Range values,
                                                    BFloat16* to, std::int64_t stride) const {
  transform_cells<InputTransform>(patch, values, to, stride);
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
  std::array<Floats, taps> kernels;
#pragma GCC unroll 9
  for (std::size_t tap = 0; tap < taps; ++tap) kernels[tap] = values[tap / 3][tap % 3];
  store_kernels(kernels, channels, to);
}

}  // namespace lockstep::backend::cpu::cells
