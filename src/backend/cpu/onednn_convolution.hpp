#pragma once

#include <memory>

#include "../feature_map.hpp"
#include "context.hpp"
#include "convolution_direction.hpp"
#include "onednn.hpp"

namespace lockstep::backend::cpu {

/// A direction by oneDNN's direct kernels, with kernels of the maps' element type, or float32 ones
/// where there are none; null where there are none of those either. The maps outlive it.
std::unique_ptr<ConvolutionDirection> make_onednn_direction(const Context& context,
                                                            Direction direction,
                                                            const ConvolutionSizes& sizes,
                                                            const FeatureMap& source,
                                                            const FeatureMap& destination);

}  // namespace lockstep::backend::cpu
