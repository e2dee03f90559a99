// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>

#include "../kernels/winograd_matrices.hpp"
#include "int16_kernels.hpp"

// The matrices of Winograd's algorithm for kernels that divide each transformed value by the norm
// of its coefficients (see int16_kernels.hpp): the norms, and the transforms of the results, which
// multiply by them again.

namespace lockstep::backend::cpu::cells::int16 {

/// The rows of a matrix belong to the points +-p, +-q, and 0 or infinity (`ends`), or are unit
/// vectors. The norms of all rows of a class are equal.
enum PointClass { ends, at_p, at_q, unit };
inline constexpr std::size_t point_classes = 4;

/// Euclidean norms of the rows, per class.
using RowNorms = std::array<float, point_classes>;
inline constexpr RowNorms input_norms = {2.8722813F, 2.7386128F, 1.9364917F, 1.0F};  // Bt
inline constexpr RowNorms gradient_norms = {1.0F, 1.3693064F, 3.8729833F, 1.0F};     // A

/// Returns the inverse of the norm of the coefficients in row i of one dimension, and row j of the
/// other, of these classes.
constexpr float inverse_norm(const RowNorms& norms, std::size_t i, std::size_t j) {
  return 1 / (norms[i] * norms[j]);
}

/// The products of the norms of two matrices. Divided by that of the ends, so that they need not be
/// multiplied: the result is multiplied by `factor` at the end.
struct ResultFactors {
  constexpr ResultFactors(const RowNorms& one, const RowNorms& other)
      : p(one[at_p] * other[at_p] / (one[ends] * other[ends])),
        q(one[at_q] * other[at_q] / (one[ends] * other[ends])),
        unit_row(1 / (one[ends] * other[ends])),
        factor(one[ends] * other[ends] * (one[ends] * other[ends])) {}
  float p, q, unit_row, factor;
};

/// F(4x4, 3x3): 3x3 convolutions of stride 1 in both map directions.
struct Unstrided {
  static constexpr std::array<PointClass, 6> classes = {ends, at_p, at_p, at_q, at_q, ends};
  static constexpr std::array<PointClass, 6> weight_classes = classes;
  static constexpr RowNorms weight_norms = {1.0F, 0.88191710F, 0.44095855F, 1.0F};
  using Input = winograd::Bt;
  using Gradient = winograd::A;
  using Weights = winograd::G;

  /// At, each column multiplied by the norms of the rows of Bt and G.
  struct Output {
    static constexpr int in = 6, out = 4;
    static constexpr ResultFactors by{input_norms, weight_norms};
    template <class V>
    LOCKSTEP_INLINE static void apply(const V (&x)[6], V (&y)[4]) {
      const V even_p = x[1] + x[2], odd_p = x[1] - x[2];
      const V even_q = x[3] + x[4], odd_q = x[3] - x[4];
      constexpr float odd_factor_p = winograd::p * by.p, odd_factor_q = winograd::q * by.q;
      y[0] = x[0] + by.p * even_p + by.q * even_q;
      y[1] = odd_factor_p * odd_p + odd_factor_q * odd_q;
      y[2] = 0.5F * by.p * even_p + 2.0F * by.q * even_q;
      y[3] = x[5] + 0.5F * odd_factor_p * odd_p + 2.0F * odd_factor_q * odd_q;
    }
  };

  /// Gt, each column multiplied by the norms of the rows of Bt and A.
  struct WeightGradient {
    static constexpr int in = 6, out = 3;
    static constexpr ResultFactors by{input_norms, gradient_norms};
    template <class V>
    LOCKSTEP_INLINE static void apply(const V (&x)[6], V (&y)[3]) {
      const V even_p = (-2.0F / 3 * by.p) * (x[1] + x[2]);
      const V even_q = (1.0F / 6 * by.q) * (x[3] + x[4]);
      constexpr float odd_factor_p = -2.0F / 3 * winograd::p * by.p;
      constexpr float odd_factor_q = 1.0F / 6 * winograd::q * by.q;
      y[0] = x[0] + even_p + even_q;
      y[1] = odd_factor_p * (x[1] - x[2]) + odd_factor_q * (x[3] - x[4]);
      y[2] = x[5] + 0.5F * even_p + 2.0F * even_q;
    }
  };
};

/// Minimal filtering of 3x3 convolutions of stride 2 (winograd_strided_kernels.hpp): forward and
/// backward weights.
struct Strided {
  static constexpr std::array<PointClass, 9> classes = {at_p, at_p, at_q, at_q, ends,
                                                        unit, unit, unit, unit};
  static constexpr std::array<PointClass, 6> weight_classes = {at_p, at_p, at_q, at_q, ends, unit};
  static constexpr RowNorms weight_norms = {1.0F, 0.57735027F, 0.40824829F, 1.0F};
  using Input = winograd::strided::Bt;
  using Gradient = winograd::strided::A;
  using Weights = winograd::strided::G;

  static constexpr ResultFactors map_factors{input_norms, weight_norms};

  /// Computes the four outputs of F(4, 2).
  template <class V>
  LOCKSTEP_INLINE static void apply_at(const V* x, V (&y)[4]) {
    const V even_p = x[0] + x[1], odd_p = x[0] - x[1];
    const V even_q = x[2] + x[3], odd_q = x[2] - x[3];
    constexpr ResultFactors by = map_factors;
    constexpr float odd_factor_p = winograd::p * by.p, odd_factor_q = winograd::q * by.q;
    y[0] = by.p * even_p + by.q * even_q;
    y[1] = odd_factor_p * odd_p + odd_factor_q * odd_q;
    y[2] = 0.5F * by.p * even_p + 2.0F * by.q * even_q;
    y[3] = x[4] + 0.5F * odd_factor_p * odd_p + 2.0F * odd_factor_q * odd_q;
  }

  struct Output {
    static constexpr int in = 9, out = 4;
    static constexpr ResultFactors by = map_factors;
    template <class V>
    LOCKSTEP_INLINE static void apply(const V (&x)[9], V (&y)[4]) {
      apply_at(x, y);
      for (int i = 0; i < 4; ++i) y[i] += by.unit_row * x[5 + i];
    }
  };

  struct WeightGradient {
    static constexpr int in = 6, out = 3;
    static constexpr ResultFactors by{input_norms, gradient_norms};
    template <class V>
    LOCKSTEP_INLINE static void apply(const V (&x)[6], V (&y)[3]) {
      constexpr float first_p = 1.0F / 3 / winograd::p * by.p;
      constexpr float first_q = 1.0F / 3 / winograd::q * by.q;
      y[0] = first_p * (x[1] - x[0]) + first_q * (x[2] - x[3]);
      y[1] = by.unit_row * x[5];
      y[2] = x[4] + (1.0F / 3 * by.q) * (x[2] + x[3]) - (1.0F / 3 * by.p) * (x[0] + x[1]);
    }
  };
};

/// The same for backward data.
struct StridedData : Strided {
  using Input = winograd::strided::GradientBt;

  struct Output {
    static constexpr int in = 9, out = 8;
    static constexpr ResultFactors by = map_factors;
    template <class V>
    LOCKSTEP_INLINE static void apply(const V (&x)[9], V (&y)[8]) {
      V odd[4];
      apply_at(x, odd);
      for (int i = 0; i < 4; ++i) {
        y[2 * i] = by.unit_row * x[5 + i];
        y[2 * i + 1] = odd[i];
      }
    }
  };
};

template <class Scheme>
inline constexpr Int16Kernels::Sizes scheme_sizes{
    .patch_size = Scheme::Input::in,
    .tile_size = Scheme::Output::out,
    .product_rows = static_cast<std::int64_t>(Scheme::classes.size()),
    .weight_rows = static_cast<std::int64_t>(Scheme::weight_classes.size())};

/// Returns the kernels of a scheme. `Kernels`: class template whose parameter is the scheme.
template <template <class> class Kernels>
const Int16Kernels& kernels_of(Int16Scheme scheme) {
  static const Kernels<Unstrided> unstrided;
  static const Kernels<Strided> strided;
  static const Kernels<StridedData> strided_data;
  switch (scheme) {
    case Int16Scheme::strided: return strided;
    case Int16Scheme::strided_data: return strided_data;
    case Int16Scheme::unstrided: break;
  }
  return unstrided;
}

}  // namespace lockstep::backend::cpu::cells::int16
