// SPDX-License-Identifier: BSD-3-Clause
// Kernels that do not agree with their formulas, to test the counter.

#include <cmath>

#include "cases.hpp"

namespace lockstep::backend::cuda::kernels::test {
namespace {

/// Subtracts the largest value of each row of 8 elements: reads x twice.
struct TwoPasses {
  const float* x;
  float* y;
  std::int64_t rows;

  std::int64_t count() const { return rows; }
  void operator()(std::int64_t row) const {
    float largest = -infinity;
    for (int i = 0; i < 8; ++i) largest = std::fmax(largest, x[row * 8 + i]);
    for (int i = 0; i < 8; ++i) y[row * 8 + i] = x[row * 8 + i] - largest;
  }
};

/// Copies a matrix (size, size) to its transpose: the threads of a warp read a column.
struct Transposition {
  const float* x;
  float* y;
  std::int64_t size;

  std::int64_t count() const { return size * size; }
  void operator()(std::int64_t index) const { y[index] = x[index % size * size + index / size]; }
};

}  // namespace

std::vector<Traffic> seeded_cases() {
  const Tensor<float> x(32 * 32), y(32 * 32);
  const auto rows = std::int64_t{32} * 32 / 8;
  return {
      count_traffic("TwoPasses", TwoPasses{x.data(), y.data(), rows},
                    {strided(reads("x", x), 8), strided(writes("y", y), 8)}),
      count_traffic("Transposition", Transposition{x.data(), y.data(), 32},
                    {reads("x", x), writes("y", y)}),
      count_traffic("Transposition", Transposition{x.data(), y.data(), 32},
                    {table("x", x, 4), strided(writes("y", y), 1)}, "as a table"),
  };
}

}  // namespace lockstep::backend::cuda::kernels::test
