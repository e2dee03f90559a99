// SPDX-License-Identifier: BSD-3-Clause
// Kernels with the instruction VDPBF16PS of AVX512-BF16, which adds two products of bfloat16 values
// to each of 16 float32 sums. A register holds one row of 16 sums, so the products of a cell are
// computed for 8 of its 32 rows at a time: 16 sums per row in 16 registers for both halves of the
// columns, or in 24 registers for three taps. A pair of values of A is broadcast to all lanes.

#include <array>
#include <cstring>

#include "avx512.hpp"
#include "cell_vectors.hpp"

namespace lockstep::backend::cpu::cells {

using core::BFloat16;

namespace {

/// Rows of sums that are computed at a time.
constexpr int group = 8;
/// Pairs of values that are summed over in a cell without padding.
constexpr std::int64_t all_pairs = cell_channels / 2;

LOCKSTEP_INLINE_AVX512 __m512bh broadcast_pair(const BFloat16* from) {
  int pair;
  std::memcpy(&pair, from, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

/// Computes sum[row][column] += a[row] b[column] for `Rows` rows of `pairs` pairs of values of the
/// cell `a` and `Columns` groups of 16 columns; `b` has the addresses of their pairs of rows.
template <int Rows, int Columns>
LOCKSTEP_INLINE_AVX512 void add_products(const BFloat16* a,
                                         const std::array<const BFloat16*, Columns>& b,
                                         std::int64_t pairs, __m512 (&sum)[Rows][Columns]) {
#pragma GCC unroll 2
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    __m512bh right[Columns];
#pragma GCC unroll 3
    for (int column = 0; column < Columns; ++column)
      right[column] =
          reinterpret_cast<__m512bh>(load(b[static_cast<std::size_t>(column)] + pair * 32));
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      const __m512bh left = broadcast_pair(a + row * 32 + 2 * pair);
#pragma GCC unroll 3
      for (int column = 0; column < Columns; ++column)
        sum[row][column] = _mm512_dpbf16_ps(sum[row][column], left, right[column]);
    }
  }
}

/// Returns the position of row `row` of 32 rows in the four tiles of a cell's sums.
constexpr std::int64_t sums_of(std::int64_t row) {
  return row / tile_rows * 2 * tile_floats + row % tile_rows * tile_rows;
}
/// Reads and writes the sums of the rows from `first` on.
LOCKSTEP_INLINE_AVX512 void load_sums(const float* from, std::int64_t first,
                                      __m512 (&sum)[group][2]) {
  const float* at = from + sums_of(first);
#pragma GCC unroll 8
  for (int i = 0; i < group; ++i, at += tile_rows) {
    sum[i][0] = _mm512_load_ps(at);
    sum[i][1] = _mm512_load_ps(at + tile_floats);
  }
}
LOCKSTEP_INLINE_AVX512 void store_sums(const __m512 (&sum)[group][2], std::int64_t first,
                                       float* to) {
  float* at = to + sums_of(first);
#pragma GCC unroll 8
  for (int i = 0; i < group; ++i, at += tile_rows) {
    _mm512_store_ps(at, sum[i][0]);
    _mm512_store_ps(at + tile_floats, sum[i][1]);
  }
}

LOCKSTEP_AVX512 void multiply_pixel(const OutputRow& row, const AxisTaps& columns, float* sums) {
  for (std::int64_t first = 0; first < row.to.images; first += group) {
    __m512 sum[group][2];
#pragma GCC unroll 8
    for (auto& values : sum) {
      values[0] = row.bias != nullptr ? _mm512_loadu_ps(row.bias) : _mm512_setzero_ps();
      values[1] = row.bias != nullptr ? _mm512_loadu_ps(row.bias + 16) : _mm512_setzero_ps();
    }
    for (std::int64_t i = 0; i < row.input_count; ++i) {
      const auto& input = row.inputs[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < columns.count; ++j) {
        const AxisTap& column = columns.taps[static_cast<std::size_t>(j)];
        const BFloat16* a =
            input.cells + column.position * row.strides.pixel + first * cell_channels;
        const BFloat16* b =
            row.weights + (input.tap_row * row.kernel + column.tap) * row.blocks * cell_size;
        for (std::int64_t block = 0; block < row.blocks;
             ++block, a += row.strides.block, b += cell_size)
          add_products<group, 2>(a, {b, b + tile_halves}, all_pairs, sum);
      }
    }
    store_sums(sum, first, sums);
  }
}

/// Sums for `Kernel` taps of one row of the kernel. Gradient pixels at the border of the map have
/// no source pixel for some taps. These products are computed with zeros, so an infinite gradient
/// also makes the sums of such taps NaN.
template <int Kernel>
LOCKSTEP_AVX512 void multiply_rows(const GradientRows& rows) {
  // For a single tap, more rows keep enough instructions independent of each other.
  constexpr int count = Kernel == 1 ? 2 * group : group;
  alignas(64) static constexpr BFloat16 zeros[tile_halves] = {};
  const std::int64_t source_stride = rows.source_blocks * cell_size;
  const std::int64_t pairs = ceil_div(rows.images, 2);
  const auto at = [](std::int64_t tap, std::int64_t row) {
    return (2 * tap + row / tile_rows) * tile_floats + row % tile_rows * tile_rows;
  };
  for (std::int64_t first = 0; first < cell_channels; first += count) {
    __m512 sum[count][Kernel];
#pragma GCC unroll 16
    for (int row = 0; row < count; ++row) {
#pragma GCC unroll 3
      for (int tap = 0; tap < Kernel; ++tap)
        sum[row][tap] =
            rows.adds ? _mm512_load_ps(rows.sums + at(tap, first + row)) : _mm512_setzero_ps();
    }
    for (const auto& row : *rows.rows) {
      const BFloat16* gradient = row.gradient + first * cell_images;
      for (const AxisTaps& columns : *rows.columns) {
        std::array<const BFloat16*, Kernel> sources;
        sources.fill(zeros);
        for (std::int64_t j = 0; j < columns.count; ++j) {
          const AxisTap& column = columns.taps[static_cast<std::size_t>(j)];
          sources[static_cast<std::size_t>(column.tap)] =
              row.source + column.position * source_stride;
        }
        add_products<count, Kernel>(gradient, sources, pairs, sum);
        gradient += rows.gradient_blocks * cell_size;
      }
    }
#pragma GCC unroll 16
    for (int row = 0; row < count; ++row) {
#pragma GCC unroll 3
      for (int tap = 0; tap < Kernel; ++tap)
        _mm512_store_ps(rows.sums + at(tap, first + row), sum[row][tap]);
    }
  }
}

LOCKSTEP_AVX512 void multiply_cells(const CellProducts& products) {
  const std::int64_t pairs = ceil_div(products.depth, 2);
  for (std::int64_t first = 0; first < products.rows; first += group) {
    __m512 sum[group][2] = {};
    if (products.adds) load_sums(products.sums, first, sum);
    const BFloat16* a = products.a + first * 32;
    const BFloat16* b = products.b;
    for (std::int64_t i = 0; i < products.count;
         ++i, a += products.a_stride, b += products.b_stride)
      add_products<group, 2>(a, {b, b + tile_halves}, pairs, sum);
    store_sums(sum, first, products.sums);
  }
}

class DotKernels : public Avx512Vectors {
 public:
  std::string_view instructions() const override { return "avx512-bf16"; }
  void enter() const override {}
  void leave() const override { Avx512Vectors::finish_streams(); }

  void multiply(const OutputRow& row) const override {
    write_row<Avx512Vectors>(
        row, [&](const AxisTaps& columns, float* sums) { multiply_pixel(row, columns, sums); });
  }
  void multiply(const GradientRows& rows) const override {
    if (rows.kernel == 3) {
      multiply_rows<3>(rows);
    } else {
      multiply_rows<1>(rows);
    }
  }
  void multiply(const CellProducts& products) const override { multiply_cells(products); }
};

}  // namespace

std::unique_ptr<Kernels> make_avx512_kernels() {
  if (!Avx512Vectors::are_supported()) return nullptr;
  return std::make_unique<DotKernels>();
}

}  // namespace lockstep::backend::cpu::cells
