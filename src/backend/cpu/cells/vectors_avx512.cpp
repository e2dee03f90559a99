#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "tiles.hpp"
#include "vectors.hpp"
#include "winograd_matrices.hpp"

#define LOCKSTEP_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

constexpr std::int64_t lanes = 16;  ///< float32 values of a vector
using Floats = Vector<lanes>;       ///< as __m512, for templates

LOCKSTEP_AVX512 __m512i load(const BFloat16* from) {
  return _mm512_loadu_si512(static_cast<const void*>(from));
}
LOCKSTEP_AVX512 void store(BFloat16* to, __m512i value) {
  _mm512_storeu_si512(static_cast<void*>(to), value);
}
__mmask32 first_halves(std::int64_t count) {
  return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}
__mmask16 first_floats(std::int64_t count) {
  return static_cast<__mmask16>(count >= lanes ? 0xffffU
                                               : (1U << std::max<std::int64_t>(count, 0)) - 1);
}

/// Returns the indices first, first + distance, first + 1, first + 1 + distance, ... With a
/// distance of 32 they are for permutations of two vectors that interleave the lower (first = 0) or
/// the upper (first = 16) halves.
LOCKSTEP_AVX512 __m512i interleaving_indices(short first, short distance = 32) {
  alignas(64) std::array<short, 32> indices;
  for (short i = 0; i < 16; ++i) {
    indices[static_cast<std::size_t>(2 * i)] = static_cast<short>(first + i);
    indices[static_cast<std::size_t>(2 * i + 1)] = static_cast<short>(first + i + distance);
  }
  return _mm512_load_si512(indices.data());
}

/// Returns 0, step, 2 step, ...
LOCKSTEP_AVX512 __m512i multiples(int step) {
  return _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                            _mm512_set1_epi32(step));
}

LOCKSTEP_AVX512 __m512 widened(__m256i half) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/// Transposes 16 x 16 32-bit values in registers: first within pairs of rows, then pairs of values,
/// then 128-bit parts.
LOCKSTEP_AVX512 void transpose_pairs(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

/// `PartialSums`, or null, in registers.
class StatisticsRegisters {
 public:
  [[gnu::always_inline]] LOCKSTEP_AVX512 explicit StatisticsRegisters(PartialSums* statistics)
      : to_(statistics) {
    if (to_ == nullptr) return;
    count_ = to_->count;
    for (int half = 0; half < 2; ++half) {
      shift_[half] = _mm512_loadu_ps(to_->shift.data() + half * lanes);
      sum_[half] = _mm512_loadu_ps(to_->sum.data() + half * lanes);
      square_[half] = _mm512_loadu_ps(to_->square.data() + half * lanes);
    }
  }
  /// Adds one value of each channel.
  [[gnu::always_inline]] LOCKSTEP_AVX512 void add(__m512 low, __m512 high) {
    if (to_ == nullptr) return;
    const __m512 values[2] = {low, high};
    for (int half = 0; half < 2; ++half) {
      if (count_ == 0) {
        shift_[half] = values[half];
        sum_[half] = square_[half] = _mm512_setzero_ps();
      }
      const __m512 difference = _mm512_sub_ps(values[half], shift_[half]);
      sum_[half] = _mm512_add_ps(sum_[half], difference);
      square_[half] = _mm512_fmadd_ps(difference, difference, square_[half]);
    }
    ++count_;
  }
  [[gnu::always_inline]] LOCKSTEP_AVX512 void store() const {
    if (to_ == nullptr) return;
    to_->count = count_;
    for (int half = 0; half < 2; ++half) {
      _mm512_storeu_ps(to_->shift.data() + half * lanes, shift_[half]);
      _mm512_storeu_ps(to_->sum.data() + half * lanes, sum_[half]);
      _mm512_storeu_ps(to_->square.data() + half * lanes, square_[half]);
    }
  }

 private:
  PartialSums* to_;
  std::int64_t count_ = 0;
  __m512 shift_[2], sum_[2], square_[2];
};

/// 32 values as float32.
struct Widened {
  __m512 low, high;
};
[[gnu::always_inline]] LOCKSTEP_AVX512 inline Widened load_widened(const BFloat16* from) {
  const __m512i values = load(from);
  return {widened(_mm512_castsi512_si256(values)), widened(_mm512_extracti64x4_epi64(values, 1))};
}
[[gnu::always_inline]] LOCKSTEP_AVX512 inline __m512i narrowed(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

template <class Transform, class Patch>
LOCKSTEP_AVX512 void transform_cells(const Patch& patch, BFloat16* to, std::int64_t stride) {
  for (std::int64_t i = 0; i < cell_size; i += 2 * lanes) {
    Square<Floats, Transform::in> low, high;
#pragma GCC unroll 16
    for (std::size_t at = 0; at < patch.size(); ++at) {
      const Widened values = load_widened(patch[at] + i);
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

constexpr std::int64_t taps = 9;  ///< of a 3x3 kernel
constexpr __mmask16 all_taps = (1U << taps) - 1;
/// Bytes to the next block of kernels in memory. The kernels are prefetched, because the hardware
/// prefetcher does not recognise the pattern of a block.
constexpr std::int64_t next_block = cell_channels * taps * std::int64_t{sizeof(float)};

/// Reads the 3x3 kernels of up to 16 columns of a row of a matrix of weights; the other columns
/// become zeros. `from`: the first kernel. Transposing whole kernels is faster than gathering taps.
[[gnu::always_inline]] LOCKSTEP_AVX512 inline std::array<Floats, taps> load_kernels(
    const float* from, std::int64_t column_stride, std::int64_t columns) {
  __m512i rows[16];
#pragma GCC unroll 16
  for (std::int64_t column = 0; column < 16; ++column) {
    const float* const kernel = from + column * column_stride;
    prefetch_ahead(kernel, next_block);
    rows[column] = _mm512_castps_si512(
        _mm512_maskz_loadu_ps(column < columns ? all_taps : __mmask16{0}, kernel));
  }
  transpose_pairs(rows);
  std::array<Floats, taps> kernels;
#pragma GCC unroll 9
  for (std::size_t tap = 0; tap < taps; ++tap) kernels[tap] = _mm512_castsi512_ps(rows[tap]);
  return kernels;
}

}  // namespace

bool Avx512Vectors::are_supported() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bf16");
}

LOCKSTEP_AVX512 void Avx512Vectors::pack(const MapRow& row, BFloat16* cells) {
  const std::int64_t blocks = (row.channels + cell_channels - 1) / cell_channels;
  const __m512i zero = _mm512_setzero_si512();
  for (std::int64_t image = 0; image < cell_images; ++image) {
    BFloat16* to = cells + image * cell_channels;
    const BFloat16* from = row.first + image * row.image_stride;
    if (image >= row.images) {
      for (std::int64_t cell = 0; cell < row.pixels * blocks; ++cell, to += cell_size)
        store(to, zero);
    } else if (row.channels % cell_channels == 0) {
      for (std::int64_t cell = 0; cell < row.pixels * blocks;
           ++cell, to += cell_size, from += cell_channels)
        store(to, load(from));
    } else {
      for (std::int64_t pixel = 0; pixel < row.pixels; ++pixel, from += row.channels) {
        for (std::int64_t channel = 0; channel < row.channels;
             channel += cell_channels, to += cell_size)
          store(to, _mm512_maskz_loadu_epi16(first_halves(row.channels - channel), from + channel));
      }
    }
  }
}

LOCKSTEP_AVX512 void Avx512Vectors::interleave(const BFloat16* plain, BFloat16* interleaved) {
  const __m512i lower = interleaving_indices(0), upper = interleaving_indices(16);
  for (std::int64_t pair = 0; pair < 16; ++pair) {
    const __m512i even = load(plain + 2 * pair * cell_channels);
    const __m512i odd = load(plain + (2 * pair + 1) * cell_channels);
    store(interleaved + pair * 32, _mm512_permutex2var_epi16(even, lower, odd));
    store(interleaved + tile_halves + pair * 32, _mm512_permutex2var_epi16(even, upper, odd));
  }
}

LOCKSTEP_AVX512 void Avx512Vectors::transpose(const BFloat16* plain, BFloat16* transposed) {
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

LOCKSTEP_AVX512 void Avx512Vectors::add_images(const BFloat16* plain, float* sums) {
  __m512 low = _mm512_loadu_ps(sums), high = _mm512_loadu_ps(sums + lanes);
  for (std::int64_t image = 0; image < cell_images; ++image) {
    const __m512i values = load(plain + image * cell_channels);
    low = _mm512_add_ps(low, widened(_mm512_castsi512_si256(values)));
    high = _mm512_add_ps(high, widened(_mm512_extracti64x4_epi64(values, 1)));
  }
  _mm512_storeu_ps(sums, low);
  _mm512_storeu_ps(sums + lanes, high);
}

LOCKSTEP_AVX512 void Avx512Vectors::pack_weights(const WeightMatrix& weights,
                                                 std::int64_t row_block, std::int64_t column_block,
                                                 BFloat16* cells, std::int64_t tap_stride) {
  const __m512i steps = multiples(static_cast<int>(weights.column_stride));
  const __m512i pairs = interleaving_indices(0, 16);
  for (std::int64_t half = 0; half < 2; ++half) {
    const std::int64_t column = column_block * 32 + half * 16;
    for (std::int64_t pair = 0; pair < 16; ++pair, cells += 32) {
      const std::int64_t row = row_block * 32 + 2 * pair;
      const std::int64_t even = row < weights.rows ? weights.columns - column : 0;
      const std::int64_t odd = row + 1 < weights.rows ? even : 0;
      const float* from = weights.flat + row * weights.row_stride + column * weights.column_stride;
      if (weights.taps == taps) {
        const auto first = load_kernels(from, weights.column_stride, even);
        const auto second = load_kernels(from + weights.row_stride, weights.column_stride, odd);
#pragma GCC unroll 9
        for (std::size_t tap = 0; tap < taps; ++tap)
          store(cells + static_cast<std::int64_t>(tap) * tap_stride,
                _mm512_permutexvar_epi16(pairs, narrowed(first[tap], second[tap])));
      } else {
        const __m512 zero = _mm512_setzero_ps();
        for (std::int64_t tap = 0; tap < weights.taps; ++tap, ++from) {
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
  const __mmask32 mask = first_halves(row.channels);
  for (std::int64_t image = 0; image < row.images; ++image, to += row.image_stride) {
    const float* from = sums + image / 16 * 2 * tile_floats + image % 16 * 16;
    const __m512 low = _mm512_load_ps(from), high = _mm512_load_ps(from + tile_floats);
    const __m512i values = narrowed(low, high);
    registers.add(low, high);
    if (streams) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), values);
    } else {
      _mm512_mask_storeu_epi16(to, mask, values);
    }
  }
  registers.store();
}

LOCKSTEP_AVX512 void Avx512Vectors::transform_input(const PatchCells& patch, BFloat16* to,
                                                    std::int64_t stride) {
  transform_cells<InputTransform>(patch, to, stride);
}

LOCKSTEP_AVX512 void Avx512Vectors::transform_gradient(const GradientPatchCells& patch,
                                                       BFloat16* to, std::int64_t stride) {
  transform_cells<GradientTransform>(patch, to, stride);
}

LOCKSTEP_AVX512 void Avx512Vectors::transform_weights(const WeightMatrix& weights,
                                                      std::int64_t row_block,
                                                      std::int64_t column_block, bool is_rotated,
                                                      BFloat16* to, std::int64_t stride) {
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
                                                     const OutputTile& tile) {
  const MapRow& row = tile.first_row;
  const __mmask32 mask = first_halves(row.channels);
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
        BFloat16* const to = row.first + image * row.image_stride +
                             static_cast<std::int64_t>(i) * tile.row_stride +
                             static_cast<std::int64_t>(j) * row.pixel_stride;
        const __m512 low = halves[0][i][j] + bias[0], high = halves[1][i][j] + bias[1];
        const __m512i values = narrowed(low, high);
        registers.add(low, high);
        if (tile.streams) {
          _mm512_stream_si512(reinterpret_cast<__m512i*>(to), values);
        } else {
          _mm512_mask_storeu_epi16(to, mask, values);
        }
      }
    }
  }
  registers.store();
}

LOCKSTEP_AVX512 void Avx512Vectors::transform_weight_gradient(const float* from,
                                                              std::int64_t stride,
                                                              std::int64_t channels, float* to) {
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

LOCKSTEP_AVX512 void Avx512Vectors::finish_streams() { _mm_sfence(); }

}  // namespace lockstep::backend::cpu::cells
