#pragma once

#include <cstdint>
#include <memory>

#include "../feature_map.hpp"
#include "convolution_direction.hpp"
#include "onednn.hpp"

// Convolutions by Winograd's F(4x4, 3x3): what stands where in memory and which thread does what.
// The arithmetic is in winograd_kernels.

namespace lockstep::backend::cpu::winograd {

/// Whether there is a Winograd form: 3x3, stride 1, padding 1, channels that fill whole panels, in
/// layouts whose lanes are whole vectors.
bool fits(const ConvolutionSizes& sizes, const FeatureMap& source, const FeatureMap& destination);

/// For maps that outlive it; `fits` must be true. float32 arithmetic with the float32 weights,
/// whatever the type of the maps.
std::unique_ptr<ConvolutionDirection> make(Direction direction, int threads,
                                           const FeatureMap& source, const FeatureMap& destination);

}  // namespace lockstep::backend::cpu::winograd
