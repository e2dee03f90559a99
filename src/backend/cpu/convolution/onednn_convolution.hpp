// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "../convolution_direction.hpp"

namespace lockstep::backend::cpu {

struct Context;

/// Creates a direction that uses oneDNN's direct kernels for the element type of the maps, or for
/// float32 if there are none; returns null if there are neither.
std::unique_ptr<ConvolutionDirection> make_onednn_direction(const Context& context,
                                                            const ConvolutionProblem& problem);

}  // namespace lockstep::backend::cpu
