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
  static constexpr int order[] = {0, 5, 1, 2, 3, 4}, together = 2;
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
  static constexpr int order[] = {0, 5, 1, 2, 3, 4}, together = 2;
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
  static constexpr int order[] = {0, 1, 2}, together = 3;
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
  static constexpr int order[] = {0, 2, 1, 3}, together = 4;
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
  static constexpr int order[] = {0, 5, 1, 2, 3, 4}, together = 2;
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

/// Computes T X Tt: `get(column, x)` reads a column of X, `put(row, y)` receives a row of the
/// result. `T::together` rows of T X are computed at a time, in the order `T::order`, so that they
/// fit in registers; `get` is called again for each group of rows.
template <class T, int W, class Get, class Put>
LOCKSTEP_INLINE void transform(Get&& get, Put&& put) {
#pragma GCC unroll 3
  for (int done = 0; done < T::out; done += T::together) {
    Vector<W> half[T::together][T::in];
#pragma GCC unroll 6
    for (int column = 0; column < T::in; ++column) {
      Vector<W> x[T::in], y[T::out];
      get(column, x);
      T::apply(x, y);
#pragma GCC unroll 6
      for (int i = 0; i < T::together; ++i) half[i][column] = y[T::order[done + i]];
    }
#pragma GCC unroll 6
    for (int i = 0; i < T::together; ++i) {
      Vector<W> y[T::out];
      T::apply(half[i], y);
      put(T::order[done + i], y);
    }
  }
}

/// Loads `count` vectors that are `stride` elements apart.
template <int W, int count, class M>
LOCKSTEP_INLINE void load_each(const M* from, std::int64_t stride, Vector<W> (&to)[count]) {
#pragma GCC unroll 9
  for (int i = 0; i < count; ++i, from += stride) {
    forget(from);
    to[i] = load<W>(from);
  }
}

/// Stores them.
template <int W, int count>
LOCKSTEP_INLINE void store_each(const Vector<W> (&from)[count], float* to, std::int64_t stride) {
#pragma GCC unroll 9
  for (int i = 0; i < count; ++i, to += stride) {
    forget(to);
    store<W>(from[i], to);
  }
}

}  // namespace lockstep::backend::cpu::winograd
