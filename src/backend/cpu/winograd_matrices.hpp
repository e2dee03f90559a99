// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "vectors.hpp"

// The matrices of Winograd's algorithm (see winograd_kernels.hpp), applied to vectors of W values.

namespace lockstep::backend::cpu::winograd {

// The points other than 0 and infinity are +-p and +-q: p^2 = 1/2, q^2 = 2.
inline constexpr float p = 0.70710678118654752f;
inline constexpr float q = 1.41421356237309505f;

// The five one-dimensional transforms, one for each matrix in the description at the top of
// winograd_kernels.hpp.

struct Bt {
  static constexpr int in = 6, out = 6;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[6], V (&y)[6]) {
    const V even_p = x[4] - 2.0f * x[2], odd_p = p * (x[3] - 2.0f * x[1]);
    const V even_q = x[4] - 0.5f * x[2], odd_q = q * (x[3] - 0.5f * x[1]);
    y[0] = x[0] + x[4] - 2.5f * x[2];
    y[1] = even_p + odd_p;
    y[2] = even_p - odd_p;
    y[3] = even_q + odd_q;
    y[4] = even_q - odd_q;
    y[5] = x[1] + x[5] - 2.5f * x[3];
  }
};

struct G {
  static constexpr int in = 3, out = 6;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[3], V (&y)[6]) {
    const V even_p = (-2.0f / 3) * (x[0] + 0.5f * x[2]), odd_p = (-2.0f / 3 * p) * x[1];
    const V even_q = (1.0f / 6) * (x[0] + 2.0f * x[2]), odd_q = (1.0f / 6 * q) * x[1];
    y[0] = x[0];
    y[1] = even_p + odd_p;
    y[2] = even_p - odd_p;
    y[3] = even_q + odd_q;
    y[4] = even_q - odd_q;
    y[5] = x[2];
  }
};

struct Gt {
  static constexpr int in = 6, out = 3;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[6], V (&y)[3]) {
    const V even_p = (-2.0f / 3) * (x[1] + x[2]), odd_p = (-2.0f / 3 * p) * (x[1] - x[2]);
    const V even_q = (1.0f / 6) * (x[3] + x[4]), odd_q = (1.0f / 6 * q) * (x[3] - x[4]);
    y[0] = x[0] + even_p + even_q;
    y[1] = odd_p + odd_q;
    y[2] = 0.5f * even_p + 2.0f * even_q + x[5];
  }
};

struct At {
  static constexpr int in = 6, out = 4;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[6], V (&y)[4]) {
    const V even_p = x[1] + x[2], odd_p = p * (x[1] - x[2]);
    const V even_q = x[3] + x[4], odd_q = q * (x[3] - x[4]);
    y[0] = x[0] + even_p + even_q;
    y[1] = odd_p + odd_q;
    y[2] = 0.5f * even_p + 2.0f * even_q;
    y[3] = 0.5f * odd_p + 2.0f * odd_q + x[5];
  }
};

struct A {
  static constexpr int in = 4, out = 6;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[4], V (&y)[6]) {
    const V even_p = x[0] + 0.5f * x[2], odd_p = p * (x[1] + 0.5f * x[3]);
    const V even_q = x[0] + 2.0f * x[2], odd_q = q * (x[1] + 2.0f * x[3]);
    y[0] = x[0];
    y[1] = even_p + odd_p;
    y[2] = even_p - odd_p;
    y[3] = even_q + odd_q;
    y[4] = even_q - odd_q;
    y[5] = x[3];
  }
};

/// Computes T X Tt: `get(row, column)` returns the elements of X, `put(row, column, value)`
/// receives the result.
template <class T, int W, class Get, class Put>
LOCKSTEP_INLINE void transform(Get&& get, Put&& put) {
  Vector<W> half[T::out][T::in];
#pragma GCC unroll 6
  for (int column = 0; column < T::in; ++column) {
    Vector<W> x[T::in], y[T::out];
#pragma GCC unroll 6
    for (int row = 0; row < T::in; ++row) x[row] = get(row, column);
    T::apply(x, y);
#pragma GCC unroll 6
    for (int row = 0; row < T::out; ++row) half[row][column] = y[row];
  }
#pragma GCC unroll 6
  for (int row = 0; row < T::out; ++row) {
    Vector<W> y[T::out];
    T::apply(half[row], y);
#pragma GCC unroll 6
    for (int column = 0; column < T::out; ++column) put(row, column, y[column]);
  }
}

}  // namespace lockstep::backend::cpu::winograd
