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
  static constexpr int order[] = {0, 1, 2, 3}, together = 4;
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

// The matrices of stride 2 (see winograd_strided_kernels.hpp): those of F(4, 2), and four products
// with tap 1.
namespace strided {

/// Computes the five values of F(4, 2) from five pixels.
template <class V>
LOCKSTEP_INLINE void apply_bt(const V& x0, const V& x1, const V& x2, const V& x3, const V& x4,
                              V* y) {
  const V odd_p = p * (x2 - 2.0f * x0), even_p = x3 - 2.0f * x1;
  const V odd_q = q * (x2 - 0.5f * x0), even_q = x3 - 0.5f * x1;
  y[0] = even_p + odd_p;
  y[1] = even_p - odd_p;
  y[2] = even_q + odd_q;
  y[3] = even_q - odd_q;
  y[4] = x0 + x4 - 2.5f * x2;
}

/// Computes four outputs from the five values of F(4, 2).
template <class V>
LOCKSTEP_INLINE void apply_at(const V* x, V (&y)[4]) {
  const V even_p = x[0] + x[1], odd_p = p * (x[0] - x[1]);
  const V even_q = x[2] + x[3], odd_q = q * (x[2] - x[3]);
  y[0] = even_p + even_q;
  y[1] = odd_p + odd_q;
  y[2] = 0.5f * even_p + 2.0f * even_q;
  y[3] = 0.5f * odd_p + 2.0f * odd_q + x[4];
}

struct Bt {
  static constexpr int in = 9, out = 9;
  static constexpr int order[] = {0, 1, 4, 2, 3, 5, 6, 7, 8}, together = 3;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[9], V (&y)[9]) {
    apply_bt(x[0], x[2], x[4], x[6], x[8], y);
    for (int i = 0; i < 4; ++i) y[5 + i] = x[2 * i + 1];
  }
};

/// The transform of the output gradient for the input gradient.
struct GradientBt {
  static constexpr int in = 5, out = 9;
  static constexpr int order[] = {0, 1, 4, 2, 3, 5, 6, 7, 8}, together = 3;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[5], V (&y)[9]) {
    apply_bt(x[0], x[1], x[2], x[3], x[4], y);
    for (int i = 0; i < 4; ++i) y[5 + i] = x[i];
  }
};

/// The transform of the output gradient for the weight gradient.
struct A {
  static constexpr int in = 4, out = 9;
  static constexpr int order[] = {0, 1, 4, 2, 3, 5, 6, 7, 8}, together = 3;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[4], V (&y)[9]) {
    const V even_p = x[0] + 0.5f * x[2], odd_p = p * (x[1] + 0.5f * x[3]);
    const V even_q = x[0] + 2.0f * x[2], odd_q = q * (x[1] + 2.0f * x[3]);
    y[0] = even_p + odd_p;
    y[1] = even_p - odd_p;
    y[2] = even_q + odd_q;
    y[3] = even_q - odd_q;
    y[4] = x[3];
    for (int i = 0; i < 4; ++i) y[5 + i] = x[i];
  }
};

struct At {
  static constexpr int in = 9, out = 4;
  static constexpr int order[] = {0, 1, 2, 3}, together = 2;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[9], V (&y)[4]) {
    apply_at(x, y);
    for (int i = 0; i < 4; ++i) y[i] += x[5 + i];
  }
};

struct GradientAt {
  static constexpr int in = 9, out = 8;
  static constexpr int order[] = {0, 2, 4, 6, 1, 3, 5, 7}, together = 2;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[9], V (&y)[8]) {
    V odd[4];
    apply_at(x, odd);
    for (int i = 0; i < 4; ++i) {
      y[2 * i] = x[5 + i];
      y[2 * i + 1] = odd[i];
    }
  }
};

struct G {
  static constexpr int in = 3, out = 6;
  static constexpr int order[] = {0, 1, 2, 3, 4, 5}, together = 6;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[3], V (&y)[6]) {
    const V last = (1.0f / 3) * x[2], first_p = (1.0f / 3 / p) * x[0],
            first_q = (1.0f / 3 / q) * x[0];
    y[0] = -first_p - last;
    y[1] = first_p - last;
    y[2] = first_q + last;
    y[3] = last - first_q;
    y[4] = x[2];
    y[5] = x[1];
  }
};

struct Gt {
  static constexpr int in = 6, out = 3;
  static constexpr int order[] = {0, 1, 2}, together = 3;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[6], V (&y)[3]) {
    y[0] = (1.0f / 3 / p) * (x[1] - x[0]) + (1.0f / 3 / q) * (x[2] - x[3]);
    y[1] = x[5];
    y[2] = (1.0f / 3) * (x[2] + x[3] - x[0] - x[1]) + x[4];
  }
};

}  // namespace strided

/// Computes T X Tt: `get(column, x)` reads a column of X, `put(row, y)` receives a row of the
/// result. `T::together` rows of T X are computed at a time, in the order `T::order`, so that they
/// fit in registers; `get` is called again for each group of rows.
template <class T, int W, class Get, class Put>
LOCKSTEP_INLINE void transform(Get&& get, Put&& put) {
#pragma GCC unroll 4
  for (int done = 0; done < T::out; done += T::together) {
    Vector<W> half[T::together][T::in];
#pragma GCC unroll 9
    for (int column = 0; column < T::in; ++column) {
      Vector<W> x[T::in], y[T::out];
      get(column, x);
      T::apply(x, y);
#pragma GCC unroll 9
      for (int i = 0; i < T::together; ++i) half[i][column] = y[T::order[done + i]];
    }
#pragma GCC unroll 9
    for (int i = 0; i < T::together; ++i) {
      Vector<W> y[T::out];
      T::apply(half[i], y);
      put(T::order[done + i], y);
    }
  }
}

/// Loads `count` vectors that are `stride` elements apart.
template <int W, int count, class M>
LOCKSTEP_INLINE void load_each(const M* from, std::int64_t stride, Vector<W>* to) {
#pragma GCC unroll 9
  for (int i = 0; i < count; ++i, from += stride) {
    forget(from);
    to[i] = load<W>(from);
  }
}

/// Stores them.
template <int W, int count>
LOCKSTEP_INLINE void store_each(const Vector<W>* from, float* to, std::int64_t stride) {
#pragma GCC unroll 9
  for (int i = 0; i < count; ++i, to += stride) {
    forget(to);
    store<W>(from[i], to);
  }
}

}  // namespace lockstep::backend::cpu::winograd
