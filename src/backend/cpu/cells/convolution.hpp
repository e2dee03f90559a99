// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "../convolution_direction.hpp"
#include "resources.hpp"

// Convolutions of bfloat16 maps, directly or by Winograd's algorithm. geometry: rows and cells that
// a direction needs; map_direction, winograd_weights_direction and the files of their variants
// (direct, f2x2, int16): memory and threads; kernels: arithmetic in bfloat16, in tile_kernels with
// the tiles of AMX and in dot_kernels with AVX512-BF16; int16_kernels: arithmetic with integers.

namespace lockstep::backend::cpu::cells {

/// Returns true if the direction is supported. The maps must be bfloat16. Supported are
///   - 1x1 and 3x3 convolutions with at least 16 channels on both sides, whose maps are
///     `blocked32x32`, which is processed in place;
///   - forward and backward weights of convolutions with any kernel and fewer input channels, whose
///     source is planar; the destination as above.
bool fits(const ConvolutionProblem& problem);

/// Creates a direction with weights rounded to bfloat16 and float32 accumulation. `fits` must be
/// true. The kernels must outlive the direction.
std::unique_ptr<ConvolutionDirection> make(const ConvolutionProblem& problem,
                                           const Resources& resources);

/// Variants of Winograd's algorithm: F(2x2, 3x3), whose transformed maps and weights are rounded to
/// bfloat16, and F(4x4, 3x3), whose transformed maps and weights are rounded to 16-bit integers.
enum class WinogradVariant { bfloat16, int16 };

/// Returns true if Winograd's algorithm supports the direction: for the maps and channels of
/// `fits`, 3x3 convolutions with one pixel of padding, and stride 1 or, with 16-bit integers, 1 or
/// 2.
bool winograd_fits(const ConvolutionProblem& problem, WinogradVariant variant);

/// As `make`, by Winograd's algorithm. `winograd_fits` must be true.
std::unique_ptr<ConvolutionDirection> make_winograd(const ConvolutionProblem& problem,
                                                    const Resources& resources,
                                                    WinogradVariant variant);

}  // namespace lockstep::backend::cpu::cells
