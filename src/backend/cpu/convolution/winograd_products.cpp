// SPDX-License-Identifier: BSD-3-Clause
#include "winograd_products.hpp"

#include <algorithm>
#include <type_traits>

#include "../kernels/vectors.hpp"

// The matrix products between the transforms, which are most of the arithmetic.

namespace lockstep::backend::cpu::winograd {

namespace {

/// Rows of the register tile of the matrix products. With two vectors of columns, this is the
/// largest number of accumulators that leaves registers for the operands.
template <int W>
constexpr int most_rows = W == 16 ? 12 : 6;

/// Computes c[row][lane] = sum over k of a(row, k) * b[k][lane] for `Rows` rows and one panel of
/// lanes. a is stored in panels of 2 W values of k: along the lanes of a panel or, if `transposed`,
/// along its entries.
template <int W, int Rows, bool transposed>
LOCKSTEP_INLINE void register_tile(const float* a, std::int64_t panel_stride, const float* b,
                                   float* c, std::int64_t depth) {
  constexpr std::int64_t lanes = 2 * W;
  Vector<W> sum[Rows][2] = {};
  for (std::int64_t done = 0; done < depth; done += lanes, a += panel_stride) {
    const std::int64_t count = std::min(lanes, depth - done);
    if (!transposed) {
      // The rows of the next register tile, which the hardware prefetcher does not expect.
#pragma GCC unroll 24
      for (int line = 0; line < Rows * 2 * W / 16; ++line)
        __builtin_prefetch(a + Rows * lanes + line * 16, 0, 2);
    }
    for (std::int64_t k = 0; k < count; ++k, b += lanes) {
      const Vector<W> left = load<W>(b), right = load<W>(b + W);
#pragma GCC unroll 12
      for (int row = 0; row < Rows; ++row) {
        const float factor = transposed ? a[k * lanes + row] : a[row * lanes + k];
        sum[row][0] += factor * left;
        sum[row][1] += factor * right;
      }
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < Rows; ++row) {
    store<W>(sum[row][0], c + row * lanes);
    store<W>(sum[row][1], c + row * lanes + W);
  }
}

template <int W, bool transposed>
LOCKSTEP_INLINE void product(const float* a, std::int64_t panel_stride, const float* b, float* c,
                             std::int64_t rows, std::int64_t depth) {
  constexpr std::int64_t lanes = 2 * W, row_stride = transposed ? 1 : lanes;
  const auto with = [&]<int step>(std::integral_constant<int, step>) {
    for (; rows >= step; rows -= step, a += step * row_stride, c += step * lanes)
      register_tile<W, step, transposed>(a, panel_stride, b, c, depth);
  };
  with(std::integral_constant<int, most_rows<W>>{});
  if constexpr (most_rows < W >> 8) with(std::integral_constant<int, 8>{});
  with(std::integral_constant<int, 4>{});
  with(std::integral_constant<int, 1>{});
}

}  // namespace

LOCKSTEP_CLONES void multiply(const Panels& a, std::int64_t first_entry, const Panels& b,
                              const Panels& c, std::int64_t entries, std::int64_t frequency) {
  const std::int64_t rows = entries * a.copies(frequency);
  const float* from = a.at(frequency, 0, first_entry);
  const float* with = b.at(frequency, 0, 0);
  float* to = c.at(frequency, 0, 0);
  if (a.vector_lanes == 16) {
    product<16, false>(from, a.panel_stride(frequency), with, to, rows, b.entries);
  } else {
    product<8, false>(from, a.panel_stride(frequency), with, to, rows, b.entries);
  }
}

LOCKSTEP_CLONES void multiply_transposed(const Panels& a, std::int64_t a_panel, const Panels& b,
                                         std::int64_t b_panel, const Panels& c,
                                         std::int64_t c_entry, std::int64_t entries,
                                         std::int64_t frequency) {
  const float* from = a.at(frequency, a_panel, 0);
  const float* with = b.at(frequency, b_panel, 0);
  float* to = c.at(frequency, 0, c_entry);
  const std::int64_t lanes = a.lanes(), depth = entries * a.copies(frequency);
  if (a.vector_lanes == 16) {
    product<16, true>(from, lanes * lanes, with, to, lanes, depth);
  } else {
    product<8, true>(from, lanes * lanes, with, to, lanes, depth);
  }
}

}  // namespace lockstep::backend::cpu::winograd
