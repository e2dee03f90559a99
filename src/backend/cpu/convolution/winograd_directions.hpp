// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "winograd.hpp"

// What the directions of Winograd convolutions have in common.

namespace lockstep::backend::cpu::winograd {

/// Tiles that a thread transforms at a time if all threads share a block.
inline constexpr std::int64_t tiles_at_once = 8;

inline Panels panels_of(std::int64_t entries, std::int64_t channels, int lanes,
                        bool is_strided_map = false) {
  return {.entries = entries,
          .panels = channels / panel_lanes(lanes),
          .vector_lanes = lanes,
          .is_strided_map = is_strided_map};
}

inline bool is_strided(const ConvolutionProblem& problem) { return problem.sizes.stride == 2; }

/// Returns the products per tile and pair of channels.
inline std::int64_t products_of(const ConvolutionProblem& problem) {
  return Panels{.is_strided_map = is_strided(problem)}.products();
}

/// Returns the ratio of multiplications to those of the direct algorithm: 36 / 144 or 81 / 144, or
/// more if the tiles extend beyond the map.
inline double arithmetic_of(const ConvolutionProblem& problem) {
  const FeatureMap& map = problem.destination;
  return static_cast<double>(products_of(problem) * tiling_of(map).count) /
         static_cast<double>(9 * map.images * map.shape.pixels());
}

inline std::string implementation_name(const ConvolutionProblem& problem) {
  return "winograd 4x4 (" + std::to_string(lanes_for(problem.source, problem.destination)) +
         " lanes)";
}

}  // namespace lockstep::backend::cpu::winograd
