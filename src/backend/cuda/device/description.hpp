// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace lockstep::backend::cuda {

/// Returns cuDNN's description of GPU `index`, in the format of `DescribedDevice::json`. Throws
/// `Error` if cuDNN does not return it.
std::string read_description(int index);

}  // namespace lockstep::backend::cuda
