#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convolution.hpp"
#include "kernels.hpp"

// The two kinds of directions: from one map to the other (forward, and backward data), and from
// both maps to the gradient of the weights.

namespace lockstep::backend::cpu::amx {

/// `rows` and `columns` are those of `to`. `weights` comes without its memory; its rows are the
/// channels of `from`, its columns those of `to`.
std::unique_ptr<ConvolutionDirection> make_map_direction(
    const Resources& resources, const ConvolutionSizes& sizes, const FeatureMap& from,
    const FeatureMap& to, std::vector<AxisTaps> rows, std::vector<AxisTaps> columns,
    const WeightMatrix& weights);

std::unique_ptr<ConvolutionDirection> make_weights_direction(const Resources& resources,
                                                             const ConvolutionSizes& sizes,
                                                             const FeatureMap& source,
                                                             const FeatureMap& destination);

/// The name of the implementation that users read.
std::string implementation_name(const Kernels& kernels);

}  // namespace lockstep::backend::cpu::amx
