// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace lockstep::backend::cuda {

enum class PlanningDriver {
  stub,            ///< the stub is loaded: planning works, and this process sees no GPU
  already_loaded,  ///< a CUDA driver was already loaded; cuDNN may reject runtime-compiled engines
};

/// Prepares offline planning (`Target::description`): loads a stub of the CUDA driver library, the
/// only component that cuDNN lacks on a machine without a GPU. Must be called before any CUDA or
/// cuDNN function. The stub is ../lib/lockstep/libcuda.so.1 relative to the program's folder, or
/// the one in the build folder; the environment variable LOCKSTEP_PLANNING_DRIVER overrides both.
/// Throws `Error` (usage) if the stub cannot be loaded.
PlanningDriver open_planning_driver();

}  // namespace lockstep::backend::cuda
