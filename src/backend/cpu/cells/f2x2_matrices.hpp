// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>

#include "../kernels/vectors.hpp"

// The matrices of Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2016, arXiv:1509.09308) for 3x3 convolutions of stride 1 with one
// pixel of padding. A 2x2 tile of the output is computed from a 4x4 patch of the input with 16
// products per pair of channels ("frequencies") instead of 36:
//
//   forward           Y  = At [ (G g Gt) * (Bt d B) ] A       summed over input channels
//   weight gradient   dg = Gt [ (A dY At) * (Bt d B) ] G      summed over tiles, the exact adjoint
//   input gradient    forward on dY with the kernel rotated and its channels swapped
//
// All factors are 0, 1 and 1/2, and transformed values are at most four times as large as the
// values themselves. If they are rounded to bfloat16, the relative error of the output is about
// twice that of the direct algorithm with weights in bfloat16. F(4x4, 3x3) has larger factors.
//
// V is a type with vector arithmetic, or float.

namespace lockstep::backend::cpu::cells {

inline constexpr int frequencies = 16;
inline constexpr int tile_size = 2;  ///< pixels of the output

struct InputTransform {  // Bt
  static constexpr std::size_t in = 4, out = 4;
  template <class V>
  LOCKSTEP_INLINE static void apply(const std::array<V, 4>& x, std::array<V, 4>& y) {
    y = {x[0] - x[2], x[1] + x[2], x[2] - x[1], x[1] - x[3]};
  }
};

struct GradientTransform {  // A
  static constexpr std::size_t in = 2, out = 4;
  template <class V>
  LOCKSTEP_INLINE static void apply(const std::array<V, 2>& x, std::array<V, 4>& y) {
    y = {x[0], x[0] + x[1], x[0] - x[1], -x[1]};
  }
};

struct OutputTransform {  // At
  static constexpr std::size_t in = 4, out = 2;
  template <class V>
  LOCKSTEP_INLINE static void apply(const std::array<V, 4>& x, std::array<V, 2>& y) {
    y = {x[0] + x[1] + x[2], x[1] - x[2] - x[3]};
  }
};

struct WeightTransform {  // G
  static constexpr std::size_t in = 3, out = 4;
  template <class V>
  LOCKSTEP_INLINE static void apply(const std::array<V, 3>& x, std::array<V, 4>& y) {
    const V ends = x[0] + x[2];
    y = {x[0], 0.5F * (ends + x[1]), 0.5F * (ends - x[1]), x[2]};
  }
};

struct WeightGradientTransform {  // Gt
  static constexpr std::size_t in = 4, out = 3;
  template <class V>
  LOCKSTEP_INLINE static void apply(const std::array<V, 4>& x, std::array<V, 3>& y) {
    const V sum = 0.5F * (x[1] + x[2]);
    y = {x[0] + sum, 0.5F * (x[1] - x[2]), sum + x[3]};
  }
};

template <class V, std::size_t N>
using Square = std::array<std::array<V, N>, N>;

/// Returns T X Tt.
template <class T, class V>
LOCKSTEP_INLINE Square<V, T::out> transformed(const Square<V, T::in>& x) {
  Square<V, T::in> columns;
  std::array<std::array<V, T::in>, T::out> half;
#pragma GCC unroll 4
  for (std::size_t column = 0; column < T::in; ++column) {
#pragma GCC unroll 4
    for (std::size_t row = 0; row < T::in; ++row) columns[column][row] = x[row][column];
    std::array<V, T::out> y;
    T::apply(columns[column], y);
#pragma GCC unroll 4
    for (std::size_t row = 0; row < T::out; ++row) half[row][column] = y[row];
  }
  Square<V, T::out> result;
#pragma GCC unroll 4
  for (std::size_t row = 0; row < T::out; ++row) T::apply(half[row], result[row]);
  return result;
}

}  // namespace lockstep::backend::cpu::cells
