// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <vector>

#include "cell_rows.hpp"
#include "convolution.hpp"
#include "kernels.hpp"

// The two kinds of directions: from one map to the other (forward and backward data), and from both
// maps to the gradient of the weights (backward weights); each directly and by Winograd's
// algorithm.

namespace lockstep::backend::cpu::cells {

/// Creates a direction that computes `to` from the map of `from`. `rows` and `columns` list, for
/// each row and column of `to`, the positions of `from` that contribute to it. `weights.flat` need
/// not be set; the rows of `weights` are the channels of `from`, its columns those of `to`.
std::unique_ptr<ConvolutionDirection> make_map_direction(
    const Resources& resources, std::unique_ptr<CellRows> from, const FeatureMap& to,
    std::vector<AxisTaps> rows, std::vector<AxisTaps> columns, const WeightMatrix& weights);
/// `is_rotated`: the 3x3 kernels are rotated by 180 degrees.
std::unique_ptr<ConvolutionDirection> make_winograd_map_direction(const Resources& resources,
                                                                  std::unique_ptr<CellRows> from,
                                                                  const FeatureMap& to,
                                                                  const WeightMatrix& weights,
                                                                  bool is_rotated);

std::unique_ptr<ConvolutionDirection> make_weights_direction(const Resources& resources,
                                                             const ConvolutionSizes& sizes,
                                                             std::unique_ptr<CellRows> source,
                                                             std::unique_ptr<CellRows> destination);
std::unique_ptr<ConvolutionDirection> make_winograd_weights_direction(
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
    std::unique_ptr<CellRows> destination);

}  // namespace lockstep::backend::cpu::cells
