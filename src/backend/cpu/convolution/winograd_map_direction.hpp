// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "../convolution_direction.hpp"

namespace lockstep::backend::cpu::winograd {

/// Creates forward or backward data.
std::unique_ptr<ConvolutionDirection> make_map_direction(const ConvolutionProblem& problem,
                                                         int threads);

}  // namespace lockstep::backend::cpu::winograd
