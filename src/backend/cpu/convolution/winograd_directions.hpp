// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "../convolution_direction.hpp"
#include "winograd_kernels.hpp"

// What the directions of Winograd convolutions have in common.

namespace lockstep::backend::cpu::winograd {

/// Division of the tiles into blocks whose sizes differ by at most 1, and whose transformed
/// maps should stay in the last-level cache. If there are enough tiles, each thread processes its
/// own blocks, and the number of blocks is a multiple of the number of threads. This is
/// faster if a thread reads slowly what another thread has written, because their cores have no
/// common cache. Otherwise the threads share each block.
class TileBlocks {
 public:
  /// `channels`: of the transformed maps. `result_bytes`: that each thread computes, and that must
  /// then be added up, if it has its own blocks. `products`: per tile and channel.
  TileBlocks(const Tiling& tiling, std::int64_t channels, int threads,
             std::int64_t result_bytes = 0, std::int64_t products = frequencies);

  bool are_shared() const { return are_shared_; }
  std::int64_t count() const { return count_; }
  std::int64_t most_tiles() const;  ///< of the largest block
  TileRange range(std::int64_t block) const;

 private:
  std::int64_t tiles_;
  bool are_shared_;
  std::int64_t count_;
};

/// Returns the number of lanes of the vectors for a pair of maps.
int lanes_for(const FeatureMap& source, const FeatureMap& destination);

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
