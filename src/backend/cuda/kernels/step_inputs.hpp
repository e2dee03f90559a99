// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace lockstep::backend::cuda::kernels {

/// Coefficients of the update of one step (update.hpp), as `optim::Coefficients`.
struct UpdateCoefficients {
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  float gradient_scale = 1;
  std::int32_t nesterov = 0;
  float trust = 0;
  std::int32_t step = 1;  ///< number of the update, counted from 1, if no step has been skipped
};

/// Values that change from step to step. Kernels read them from device memory, so that each replay
/// of a captured step uses the current values.
struct StepInputs {
  UpdateCoefficients update;
  std::uint32_t step = 0;  ///< number of the training step, for random numbers
};

}  // namespace lockstep::backend::cuda::kernels
