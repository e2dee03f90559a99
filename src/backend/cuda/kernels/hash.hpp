// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Hash of the flat parameters, as defined in backend/parameter_hash.hpp, in two passes.

#include "../../parameter_hash.hpp"
#include "scalar.hpp"

namespace lockstep::backend::cuda::kernels {

/// Number of partial sums: enough blocks for all multiprocessors of an H200 (132, of 8 blocks).
constexpr std::int64_t hash_parts = 1024;

/// Intermediate and final result, in device memory.
struct HashSums {
  std::uint64_t parts[hash_parts];
  std::uint64_t total;
};

/// Computes the partial sums over float32 parameters (elements), given their bits.
/// Memory traffic: reads parameters; writes sums.
struct HashParts {
  static constexpr int team = 256;
  static constexpr int width = 4;  ///< elements per access

  const std::uint32_t* parameters;
  HashSums* sums;
  std::int64_t elements;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return hash_parts; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t part) const {
    const std::int64_t groups = (elements + width - 1) / width;
    const std::int64_t first = groups * part / hash_parts;
    const std::int64_t end = groups * (part + 1) / hash_parts;
    const auto sum = team_sum<team, std::uint64_t>(
        end - first, [&](std::int64_t group) { return group_hash((first + group) * width); });
    if (team_lane<team>() == 0) sums->parts[part] = sum;
  }

 private:
  LOCKSTEP_HOST_DEVICE std::uint64_t group_hash(std::int64_t first) const {
    std::uint64_t sum = 0;
    if (first + width <= elements) {
      const auto pack = load_pack<width>(parameters + first);
      for (int lane = 0; lane < width; ++lane)
        sum += element_hash(static_cast<std::uint64_t>(first + lane), pack.values[lane]);
    } else {
      for (std::int64_t i = first; i < elements; ++i)
        sum += element_hash(static_cast<std::uint64_t>(i), parameters[i]);
    }
    return sum;
  }
};

/// Computes the hash from the partial sums.
/// Memory traffic: reads sums; writes sums.
struct HashTotal {
  static constexpr int team = 256;

  HashSums* sums;

  LOCKSTEP_HOST_DEVICE std::int64_t count() const { return 1; }
  LOCKSTEP_HOST_DEVICE void operator()(std::int64_t) const {
    const auto sum = team_sum<team, std::uint64_t>(
        hash_parts, [&](std::int64_t part) { return sums->parts[part]; });
    if (team_lane<team>() == 0) sums->total = sum;
  }
};

}  // namespace lockstep::backend::cuda::kernels
