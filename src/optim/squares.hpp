// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>

namespace lockstep::optim {

/// Returns the sum of the squares of `values` in float64. The order of the additions is fixed: the
/// result depends neither on the number of threads nor on the host.
double sum_of_squares(std::span<const float> values);

}  // namespace lockstep::optim
