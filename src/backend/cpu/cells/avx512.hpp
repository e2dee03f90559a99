// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "../fused_statistics.hpp"
#include "../kernels/vectors.hpp"
#include "kernels.hpp"

// Functions for the files whose code needs AVX-512 and AVX512-BF16. They are compiled for these
// instructions, whatever the processor; `Avx512Vectors::are_supported` says if it has them.

#define LOCKSTEP_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]
#define LOCKSTEP_INLINE_AVX512 \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16"), gnu::always_inline]] inline

namespace lockstep::backend::cpu::cells {

inline constexpr std::int64_t lanes = 16;  ///< float32 values of a vector
using Floats = Vector<lanes>;              ///< as __m512, for templates

LOCKSTEP_INLINE_AVX512 __m512i load(const core::BFloat16* from) {
  return _mm512_loadu_si512(static_cast<const void*>(from));
}
LOCKSTEP_INLINE_AVX512 void store(core::BFloat16* to, __m512i value) {
  _mm512_storeu_si512(static_cast<void*>(to), value);
}
inline __mmask16 first_floats(std::int64_t count) {
  return static_cast<__mmask16>(count >= lanes ? 0xffffU
                                               : (1U << std::max<std::int64_t>(count, 0)) - 1);
}

/// Returns the indices first, first + distance, first + 1, first + 1 + distance, ... With a
/// distance of 32 they are for permutations of two vectors that interleave the lower (first = 0) or
/// the upper (first = 16) halves.
LOCKSTEP_INLINE_AVX512 __m512i interleaving_indices(short first, short distance = 32) {
  alignas(64) std::array<short, 32> indices;
  for (short i = 0; i < 16; ++i) {
    indices[static_cast<std::size_t>(2 * i)] = static_cast<short>(first + i);
    indices[static_cast<std::size_t>(2 * i + 1)] = static_cast<short>(first + i + distance);
  }
  return _mm512_load_si512(indices.data());
}

LOCKSTEP_INLINE_AVX512 __m512 widened(__m256i half) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
/// 32 values as float32.
struct Widened {
  __m512 low, high;
};
LOCKSTEP_INLINE_AVX512 Widened widened(__m512i halves) {
  return {widened(_mm512_castsi512_si256(halves)), widened(_mm512_extracti64x4_epi64(halves, 1))};
}

/// Transposes 16 x 16 32-bit values in registers: first within pairs of rows, then pairs of values,
/// then 128-bit parts.
LOCKSTEP_AVX512 inline void transpose_pairs(__m512i (&r)[16]) {
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
  LOCKSTEP_INLINE_AVX512 explicit StatisticsRegisters(PartialSums* statistics) : to_(statistics) {
    if (to_ == nullptr) return;
    count_ = to_->count;
    for (int half = 0; half < 2; ++half) {
      shift_[half] = _mm512_loadu_ps(to_->shift.data() + half * lanes);
      sum_[half] = _mm512_loadu_ps(to_->sum.data() + half * lanes);
      square_[half] = _mm512_loadu_ps(to_->square.data() + half * lanes);
    }
  }
  /// Adds one value of each channel.
  LOCKSTEP_INLINE_AVX512 void add(__m512i halves) {
    if (to_ == nullptr) return;
    const Widened both = widened(halves);
    const __m512 values[2] = {both.low, both.high};
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
  LOCKSTEP_INLINE_AVX512 void store() const {
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

LOCKSTEP_INLINE_AVX512 __m512i narrowed(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

inline constexpr std::int64_t taps = 9;  ///< of a 3x3 kernel
inline constexpr __mmask16 all_taps = (1U << taps) - 1;
/// Bytes to the next block of kernels in memory. The kernels are prefetched, because the hardware
/// prefetcher does not recognise the pattern of a block.
inline constexpr std::int64_t next_block = cell_channels * taps * std::int64_t{sizeof(float)};

/// Reads the 3x3 kernels of up to 16 columns of a row of a matrix of weights; the other columns
/// become zeros. `from`: the first kernel. Transposing whole kernels is faster than gathering taps.
LOCKSTEP_INLINE_AVX512 std::array<Floats, taps> load_kernels(const float* from,
                                                             std::int64_t column_stride,
                                                             std::int64_t columns) {
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

/// Writes 3x3 kernels: the first `count` of 16, which are the lanes of `values`.
LOCKSTEP_INLINE_AVX512 void store_kernels(const std::array<Floats, taps>& values,
                                          std::int64_t count, float* to) {
  __m512i rows[16] = {};
#pragma GCC unroll 9
  for (std::size_t tap = 0; tap < taps; ++tap) rows[tap] = _mm512_castps_si512(values[tap]);
  transpose_pairs(rows);
#pragma GCC unroll 16
  for (std::int64_t kernel = 0; kernel < 16; ++kernel) {
    if (kernel >= count) break;
    prefetch_ahead<1>(to + kernel * taps, next_block);
    _mm512_mask_storeu_ps(to + kernel * taps, all_taps, _mm512_castsi512_ps(rows[kernel]));
  }
}

}  // namespace lockstep::backend::cpu::cells
