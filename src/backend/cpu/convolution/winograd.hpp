// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "../convolution_direction.hpp"

// Convolutions by Winograd's F(4x4, 3x3): memory layout and distribution of the work over threads.
// The arithmetic is in winograd_kernels.

namespace lockstep::backend::cpu::winograd {

/// Returns true if Winograd's algorithm supports the convolution: 3x3, stride 1 or 2, padding 1,
/// numbers of channels that fill whole panels, and layouts whose lanes fill whole vectors.
bool fits(const ConvolutionProblem& problem);

/// Creates a direction. `fits` must be true. Arithmetic and weights are float32 for every type of
/// the maps.
std::unique_ptr<ConvolutionDirection> make(const ConvolutionProblem& problem, int threads);

}  // namespace lockstep::backend::cpu::winograd
