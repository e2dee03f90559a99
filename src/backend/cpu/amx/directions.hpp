#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cell_rows.hpp"
#include "convolution.hpp"
#include "kernels.hpp"

// The two kinds of directions: from one map to the other (forward and backward data), and from both
// maps to the gradient of the weights (backward weights).

namespace lockstep::backend::cpu::amx {

/// Creates a direction that computes `to` from the map of `from`. `rows` and `columns` list, for
/// each row and column of `to`, the positions of `from` that contribute to it. `weights.flat` need
/// not be set; the rows of `weights` are the channels of `from`, its columns those of `to`.
std::unique_ptr<ConvolutionDirection> make_map_direction(
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> from,
    const FeatureMap& to, std::vector<AxisTaps> rows, std::vector<AxisTaps> columns,
    const WeightMatrix& weights);

std::unique_ptr<ConvolutionDirection> make_weights_direction(const Resources& resources,
                                                             const ConvolutionSizes& sizes,
                                                             std::unique_ptr<CellRows> source,
                                                             std::unique_ptr<CellRows> destination);

/// Returns the name of the implementation that is shown to users. `rows`: of the map that is read.
std::string implementation_name(const Kernels& kernels, const CellRows& rows);

}  // namespace lockstep::backend::cpu::amx
