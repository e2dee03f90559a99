// SPDX-License-Identifier: BSD-3-Clause
#include "int16_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "../kernels/vectors.hpp"

namespace lockstep::backend::cpu::cells {

namespace {

/// Norms of scaled vectors and of scaled weights. Rounding adds at most half the square root of the
/// number of values of a chunk, so no value of a vector exceeds 32767, and no sum exceeds 2^31.
constexpr float largest_norm = 32000;
constexpr float largest_weights_norm = 61000;
constexpr float smallest_norm = 1e-15F;

constexpr std::int64_t taps = 9;  ///< of a 3x3 kernel

/// Squares of some weights.
struct WeightSquares {
  float sum = 0, largest = 0;
};

constexpr std::size_t at_once = 16;

/// Adds the squares of `count` weights that are next to each other.
LOCKSTEP_CLONES void add_squares(const float* weights, std::int64_t count, WeightSquares& to) {
  std::array<float, at_once> sum{}, largest{};
  std::int64_t i = 0;
  for (; i + std::ssize(sum) <= count; i += std::ssize(sum)) {
    for (std::size_t lane = 0; lane < at_once; ++lane) {
      const float value = weights[i + static_cast<std::int64_t>(lane)];
      const float square = value * value;
      sum[lane] += square;
      largest[lane] = square > largest[lane] ? square : largest[lane];
    }
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    sum[lane] += weights[i] * weights[i];
    largest[lane] = std::max(largest[lane], weights[i] * weights[i]);
  }
  for (std::size_t lane = 0; lane < at_once; ++lane) {
    to.sum += sum[lane];
    to.largest = std::max(to.largest, largest[lane]);
  }
}

/// Adds the squares of `columns` kernels of 9 weights that are next to each other in each row.
LOCKSTEP_CLONES void add_squares_of_kernels(const float* weights, std::int64_t rows,
                                            std::int64_t row_stride, std::int64_t columns,
                                            std::array<WeightSquares, cell_channels>& to) {
  std::array<float, std::size_t{taps * cell_channels}> sum{}, largest{};
  const auto count = static_cast<std::size_t>(columns * taps);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const of_row = weights + row * row_stride;
    for (std::size_t i = 0; i < count; ++i) {
      const float square = of_row[i] * of_row[i];
      sum[i] += square;
      largest[i] = square > largest[i] ? square : largest[i];
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    WeightSquares& kernel = to[i / std::size_t{taps}];
    kernel.sum += sum[i];
    kernel.largest = std::max(kernel.largest, largest[i]);
  }
}

}  // namespace

float squared_norm_of_rows(std::span<const float> squares) {
  // The coefficients of a transformed value are products of those of both dimensions. By the
  // triangle inequality for the rows, the norm of a vector is at most the sum of the magnitudes of
  // the coefficients of one dimension, times the norm of those of the other, times the norm of the
  // largest row. The sum is at most sqrt(3.5) times the norm.
  constexpr float squared_ratio = 3.5F;
  float sum = 0, largest = 0;
  for (const float square : squares) {
    sum += square;
    largest = larger(largest, square);
  }
  const float by_rows = squared_ratio * largest;
  return sum < by_rows ? sum : by_rows;  // NaN if a square is NaN
}

std::array<float, cell_channels> squared_norms_of_columns(const WeightMatrix& weights,
                                                          std::int64_t column_block) {
  constexpr float ratio = largest_norm / largest_weights_norm;
  const std::int64_t first_column = column_block * cell_channels;
  const std::int64_t columns = std::min(cell_channels, weights.columns - first_column);
  std::array<float, cell_channels> norms{};
  for (std::int64_t first = 0; first < weights.rows; first += chunk_blocks * cell_channels) {
    const std::int64_t rows = std::min(chunk_blocks * cell_channels, weights.rows - first);
    std::array<WeightSquares, cell_channels> squares{};
    const float* const chunk =
        weights.flat + first * weights.row_stride + first_column * weights.column_stride;
    if (weights.row_stride == taps) {
      for (std::int64_t column = 0; column < columns; ++column)
        add_squares(chunk + column * weights.column_stride, rows * taps,
                    squares[static_cast<std::size_t>(column)]);
    } else {
      add_squares_of_kernels(chunk, rows, weights.row_stride, columns, squares);
    }
    for (std::size_t i = 0; i < norms.size(); ++i) {
      // A kernel of the largest norm must not exceed an int16 either.
      const float largest_kernel = static_cast<float>(taps) * squares[i].largest;
      norms[i] = larger(norms[i], larger(ratio * ratio * squares[i].sum, largest_kernel));
    }
  }
  return norms;
}

Int16Scale::Int16Scale(float squared_norm) {
  const float norm = std::sqrt(squared_norm);
  const bool is_zero = norm < smallest_norm;
  scale = is_zero ? 0 : largest_norm / norm;
  inverse = is_zero ? 0 : norm / largest_norm;
}

}  // namespace lockstep::backend::cpu::cells
