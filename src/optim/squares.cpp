// SPDX-License-Identifier: BSD-3-Clause
#include "squares.hpp"

#include <array>
#include <cstddef>
#include <numeric>

namespace lockstep::optim {

namespace {

/// Number of partial sums. It is fixed, so that the order of the additions does not depend on the
/// number of threads.
constexpr std::size_t parts = 64;
/// Shorter arrays are summed by one thread, because starting threads takes longer.
constexpr std::size_t least_parallel = 1 << 15;

double part_of_sum(std::span<const float> values) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    sum += value * value;
  }
  return sum;
}

}  // namespace

double sum_of_squares(std::span<const float> values) {
  const std::size_t size = values.size();
  std::array<double, parts> sums{};
#pragma omp parallel for schedule(static) if (size >= least_parallel)
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = size * part / parts, end = size * (part + 1) / parts;
    sums[part] = part_of_sum(values.subspan(begin, end - begin));
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace lockstep::optim
