#pragma once

#include <cudnn.h>

#include <string_view>

#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

using core::check_cuda;

/// As `check_cuda`; the message carries cuDNN's own last reason.
void check_cudnn(cudnnStatus_t status, std::string_view what);

}  // namespace lockstep::backend::cuda
