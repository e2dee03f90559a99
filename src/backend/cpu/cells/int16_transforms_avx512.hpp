// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "avx512.hpp"
#include "int16_matrices.hpp"

// The transforms of Winograd's algorithm F(4x4, 3x3) between float32 and 16-bit integers, with
// AVX-512.

#define LOCKSTEP_VNNI [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16,avx512vnni")]]
#define LOCKSTEP_INLINE_VNNI \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16,avx512vnni"), gnu::always_inline]] inline

namespace lockstep::backend::cpu::cells::int16 {

/// The scales of 16 lanes, multiplied by the inverse norms of each pair of classes of points.
struct LaneScales {
  LOCKSTEP_INLINE_VNNI LaneScales(const float* scales, const RowNorms& norms) {
    const __m512 lanes_scale = _mm512_loadu_ps(scales);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < point_classes; ++i) {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < point_classes; ++j)
        of[i][j] = lanes_scale * inverse_norm(norms, i, j);
    }
  }
  __m512 of[point_classes][point_classes];
};

/// Returns value * scale, rounded to an integer of up to 22 bits in the low bits of each lane: the
/// addition of 1.5 * 2^23 leaves no bits of the fraction.
LOCKSTEP_INLINE_VNNI __m512i rounded(__m512 value, __m512 scale) {
  return _mm512_castps_si512(_mm512_fmadd_ps(value, scale, _mm512_set1_ps(12582912.0F)));
}
/// Returns the low halves of both values of each lane, those of `even` first.
LOCKSTEP_INLINE_VNNI __m512i paired(__m512i even, __m512i odd) {
  return _mm512_mask_mov_epi16(_mm512_slli_epi32(odd, 16), 0x55555555U, even);
}
LOCKSTEP_INLINE_VNNI void store(std::int16_t* to, __m512i value) {
  _mm512_storeu_si512(static_cast<void*>(to), value);
}
LOCKSTEP_INLINE_VNNI __m512i load(const std::int16_t* from) {
  return _mm512_loadu_si512(static_cast<const void*>(from));
}

/// The values 2 k and 2 k + 1 of 32 values, as float32.
LOCKSTEP_INLINE_VNNI __m512 even_values(__m512i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(halves, 16));
}
LOCKSTEP_INLINE_VNNI __m512 odd_values(__m512i halves) {
  return _mm512_castsi512_ps(_mm512_and_si512(halves, _mm512_set1_epi32(-65536)));
}

/// A square of vectors in the order of rows.
template <int Size>
using FloatSquare = std::array<Floats, std::size_t{Size * Size}>;

/// Returns T X Tt of the values of 16 lanes; element f of X is at `from` + f * `stride`.
template <class T>
LOCKSTEP_INLINE_VNNI FloatSquare<T::out> transformed_square(const float* from,
                                                            std::int64_t stride) {
  Floats columns[T::out][T::in];
#pragma GCC unroll 9
  for (int column = 0; column < T::in; ++column) {
    Floats x[T::in], y[T::out];
#pragma GCC unroll 9
    for (int row = 0; row < T::in; ++row)
      x[row] = _mm512_load_ps(from + (row * T::in + column) * stride);
    T::apply(x, y);
#pragma GCC unroll 9
    for (int row = 0; row < T::out; ++row) columns[row][column] = y[row];
  }
  FloatSquare<T::out> result;
#pragma GCC unroll 9
  for (int row = 0; row < T::out; ++row) {
    Floats y[T::out];
    T::apply(columns[row], y);
#pragma GCC unroll 9
    for (int column = 0; column < T::out; ++column)
      result[static_cast<std::size_t>(row * T::out + column)] = y[column];
  }
  return result;
}

/// Makes the compiler write values to memory and read them again. It would keep more in registers
/// than there are, and spill them in a worse order.
LOCKSTEP_INLINE void end_of_stage() { asm volatile("" : : : "memory"); }

/// Two values of each lane, which become one pair of integers.
struct FloatPair {
  __m512 even, odd;
};

/// Transforms pairs of squares, first their columns, then their rows, and writes the pairs of
/// integers of frequency f to `to` + f * `stride`. `values(row, column)` returns the elements.
/// `classes`: of the rows.
template <class T, const auto& classes, class Values>
LOCKSTEP_INLINE_VNNI void transform_pairs_of_squares(const Values& values, const LaneScales& scales,
                                                     std::int16_t* to, std::int64_t stride) {
  Floats even_columns[T::out][T::in], odd_columns[T::out][T::in];
#pragma GCC unroll 1
  for (int column = 0; column < T::in; ++column) {
    Floats even[T::in], odd[T::in], even_to[T::out], odd_to[T::out];
#pragma GCC unroll 9
    for (int row = 0; row < T::in; ++row) {
      const FloatPair pair = values(row, column);
      even[row] = pair.even;
      odd[row] = pair.odd;
    }
    T::apply(even, even_to);
    T::apply(odd, odd_to);
#pragma GCC unroll 9
    for (int row = 0; row < T::out; ++row) {
      even_columns[row][column] = even_to[row];
      odd_columns[row][column] = odd_to[row];
    }
  }
  end_of_stage();
#pragma GCC unroll 9
  for (int row = 0; row < T::out; ++row) {
    Floats even_to[T::out], odd_to[T::out];
    T::apply(even_columns[row], even_to);
    T::apply(odd_columns[row], odd_to);
#pragma GCC unroll 9
    for (int column = 0; column < T::out; ++column, to += stride) {
      const __m512 scale = scales.of[classes[static_cast<std::size_t>(row)]]
                                    [classes[static_cast<std::size_t>(column)]];
      store(to, paired(rounded(even_to[column], scale), rounded(odd_to[column], scale)));
    }
  }
  end_of_stage();
}

}  // namespace lockstep::backend::cpu::cells::int16
