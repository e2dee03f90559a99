// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace lockstep::backend::cuda {

/// Returns the reason for a cuDNN error in one line. `message`: of cudnn-frontend. Throws `Error`
/// (out_of_memory) if cuDNN or the CUDA runtime could not allocate memory.
std::string refusal_of(const std::string& message);

}  // namespace lockstep::backend::cuda
