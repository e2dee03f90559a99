// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "../../feature_map.hpp"
#include "../convolution_direction.hpp"
#include "winograd_kernels.hpp"

// Convolutions by Winograd's F(4x4, 3x3): memory layout and distribution of the work over threads.
// The arithmetic is in winograd_kernels.

namespace lockstep::backend::cpu::winograd {

/// Returns true if Winograd's algorithm supports the convolution: 3x3, stride 1 or 2, padding 1,
/// numbers of channels that fill whole panels, and layouts whose lanes fill whole vectors.
bool fits(const ConvolutionProblem& problem);

/// Creates a direction. `fits` must be true. Arithmetic and weights are float32 for every type of
/// the maps.
std::unique_ptr<ConvolutionDirection> make(const ConvolutionProblem& problem, int threads);

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

}  // namespace lockstep::backend::cpu::winograd
