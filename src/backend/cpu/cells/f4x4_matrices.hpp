// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>

#include "../winograd_matrices.hpp"

// The matrices of Winograd's algorithm F(4x4, 3x3) for kernels that divide each transformed value
// by the norm of its coefficients (see int16_kernels.hpp): the norms, and the transforms of the
// results, which multiply by them again.

namespace lockstep::backend::cpu::cells::f4x4 {

/// The rows of a matrix belong to the points 0, +-p, +-q and infinity, in this order; the norms of
/// both rows of +-p, of +-q, and of 0 and infinity are equal.
enum PointClass { ends, at_p, at_q };
inline constexpr std::size_t point_classes = 3;
inline constexpr std::array<PointClass, 6> class_of_row = {ends, at_p, at_p, at_q, at_q, ends};

/// Euclidean norms of the rows, per class of points.
using RowNorms = std::array<float, point_classes>;
inline constexpr RowNorms input_norms = {2.8722813F, 2.7386128F, 1.9364917F};  // Bt
inline constexpr RowNorms gradient_norms = {1.0F, 1.3693064F, 3.8729833F};     // A
inline constexpr RowNorms weight_norms = {1.0F, 0.88191710F, 0.44095855F};     // G

/// Returns the inverse of the norm of the coefficients of frequency (i, j), for i and j of these
/// classes.
constexpr float inverse_norm(const RowNorms& norms, std::size_t i, std::size_t j) {
  return 1 / (norms[i] * norms[j]);
}

/// At, each column multiplied by the norms of the rows of Bt and G, and divided by those of the
/// ends; multiply the result by `factor`.
struct OutputTransform {
  static constexpr int in = 6, out = 4;
  static constexpr float e = input_norms[ends] * weight_norms[ends];
  static constexpr float p = input_norms[at_p] * weight_norms[at_p] / e;
  static constexpr float q = input_norms[at_q] * weight_norms[at_q] / e;
  static constexpr float factor = e * e;
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[6], V (&y)[4]) {
    const V even_p = x[1] + x[2], odd_p = x[1] - x[2];
    const V even_q = x[3] + x[4], odd_q = x[3] - x[4];
    constexpr float odd_factor_p = winograd::p * p, odd_factor_q = winograd::q * q;
    y[0] = x[0] + p * even_p + q * even_q;
    y[1] = odd_factor_p * odd_p + odd_factor_q * odd_q;
    y[2] = 0.5F * p * even_p + 2.0F * q * even_q;
    y[3] = x[5] + 0.5F * odd_factor_p * odd_p + 2.0F * odd_factor_q * odd_q;
  }
};

/// Gt, each column multiplied by the norms of the rows of Bt and A.
struct WeightGradientTransform {
  static constexpr int in = 6, out = 3;
  static constexpr float e = input_norms[ends] * gradient_norms[ends];
  static constexpr float p = input_norms[at_p] * gradient_norms[at_p];
  static constexpr float q = input_norms[at_q] * gradient_norms[at_q];
  template <class V>
  LOCKSTEP_INLINE static void apply(const V (&x)[6], V (&y)[3]) {
    const V even_p = (-2.0F / 3 * p) * (x[1] + x[2]), even_q = (1.0F / 6 * q) * (x[3] + x[4]);
    constexpr float odd_factor_p = -2.0F / 3 * winograd::p * p;
    constexpr float odd_factor_q = 1.0F / 6 * winograd::q * q;
    y[0] = e * x[0] + even_p + even_q;
    y[1] = odd_factor_p * (x[1] - x[2]) + odd_factor_q * (x[3] - x[4]);
    y[2] = 0.5F * even_p + 2.0F * even_q + e * x[5];
  }
};

}  // namespace lockstep::backend::cpu::cells::f4x4
