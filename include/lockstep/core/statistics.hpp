// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

namespace lockstep::core {

/// Returns the median of `values`: the mean of the two middle values if the number of values
/// is even, NaN if `values` is empty.
double median(std::vector<double> values);

}  // namespace lockstep::core
