#pragma once

#include <cstdint>

namespace lockstep::backend::cuda::kernels {

/// Coefficients of the SGD update of one step (sgd.hpp).
struct SgdCoefficients {
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  float gradient_scale = 1;
  std::int32_t nesterov = 0;
};

/// Values that change from step to step. Kernels read them from device memory, so that each replay
/// of a captured step uses the current values.
struct StepInputs {
  SgdCoefficients sgd;
  std::uint32_t step = 0;  ///< number of the training step, for random numbers
};

}  // namespace lockstep::backend::cuda::kernels
