// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cudnn.h>

#include <string_view>

#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

using core::check_cuda;

/// Throws `Error` if `status` is not success: out_of_memory if cuDNN failed to allocate host or
/// device memory, otherwise internal. The message contains cuDNN's last error string. `what`: the
/// call that failed.
void check_cudnn(cudnnStatus_t status, std::string_view what);

}  // namespace lockstep::backend::cuda
