// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The Euclidean distance of two tensors, for comparing the outputs of kernels that compute the
// same. The host adds the partial sums.

#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Number of partial sums, one per block: several blocks for each of the 132 multiprocessors of an
/// H200.
constexpr std::int64_t distance_parts = 1024;

/// Computes the partial sums (distance_parts) of (a - b)^2 in float64. a and b (null: zeros) are
/// (elements). A sum is not finite if one of its elements is not.
/// Memory traffic: reads a, b; writes sums.
template <class T>
struct SquaredDistance {
  static constexpr int team = 256;

  const T* a;
  const T* b;
  double* sums;
  std::int64_t elements;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return distance_parts; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t part) const {
    const std::int64_t groups = lane_groups<T>(elements);
    const std::int64_t first = groups * part / distance_parts;
    const std::int64_t end = groups * (part + 1) / distance_parts;
    const double sum = team_sum<team, double>(
        end - first, [&](std::int64_t group) { return squares((first + group) * lanes_of<T>); });
    if (team_lane<team>() == 0) sums[part] = sum;
  }

 private:
  LOCKSTEP_HOST_DEVICE double squares(std::int64_t first) const {
    float left[lanes_of<T>], right[lanes_of<T>] = {};
    load_elements(a, first, elements - first, left);
    if (b != nullptr) load_elements(b, first, elements - first, right);
    double sum = 0;
    for (int lane = 0; lane < lanes_of<T>; ++lane) {
      const double distance = static_cast<double>(left[lane]) - static_cast<double>(right[lane]);
      sum += distance * distance;
    }
    return sum;
  }
};

}  // namespace lockstep::backend::cuda::kernels
