// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "../convolution_direction.hpp"
#include "kernels.hpp"

// Convolutions of bfloat16 maps with the bfloat16 instructions of the processor, directly or by
// Winograd's algorithm F(2x2, 3x3). geometry: rows and cells that a direction needs; map_directions
// and the two files of weights_direction: memory and threads; kernels: arithmetic, in tile_kernels
// with the tiles of AMX and in dot_kernels with AVX512-BF16.

namespace lockstep::backend::cpu::cells {

/// Returns true if the direction is supported. The maps must be bfloat16. Supported are
///   - 1x1 and 3x3 convolutions with at least 16 channels on both sides, whose maps are
///     `blocked32x32`, which is processed in place;
///   - forward and backward weights of convolutions with any kernel and fewer input channels, whose
///     source is planar; the destination as above.
bool fits(const ConvolutionProblem& problem);

struct Resources {
  const Kernels* kernels = nullptr;
  int threads = 1;
  /// Bytes of cells that a thread reads at a time. Together with the weights of one block of
  /// channels, they should stay in the L2 cache.
  std::int64_t cached_bytes = 1 << 20;
};

/// Creates a direction with weights rounded to bfloat16 and float32 accumulation. `fits` must be
/// true. The kernels must outlive the direction.
std::unique_ptr<ConvolutionDirection> make(const ConvolutionProblem& problem,
                                           const Resources& resources);

/// Returns true if Winograd's algorithm supports the direction: for the maps and channels of
/// `fits`, 3x3 convolutions with stride 1 and one pixel of padding.
bool winograd_fits(const ConvolutionProblem& problem);

/// As `make`, by Winograd's algorithm: transformed maps and weights are rounded to bfloat16 as
/// well. `winograd_fits` must be true.
std::unique_ptr<ConvolutionDirection> make_winograd(const ConvolutionProblem& problem,
                                                    const Resources& resources);

}  // namespace lockstep::backend::cpu::cells
