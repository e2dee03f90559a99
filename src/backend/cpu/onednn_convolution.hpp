// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "../feature_map.hpp"
#include "context.hpp"
#include "convolution_direction.hpp"
#include "onednn.hpp"

namespace lockstep::backend::cpu {

/// Creates a direction that uses oneDNN's direct kernels for the element type of the maps, or for
/// float32 if there are none; returns null if there are neither. The maps must outlive the
/// direction.
std::unique_ptr<ConvolutionDirection> make_onednn_direction(const Context& context,
                                                            Direction direction,
                                                            const ConvolutionSizes& sizes,
                                                            const FeatureMap& source,
                                                            const FeatureMap& destination);

}  // namespace lockstep::backend::cpu
