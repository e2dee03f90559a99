#pragma once

namespace lockstep::backend::cuda {

enum class PlanningDriver {
  stand_in,        ///< ours: planning works, and this process sees no GPU
  already_loaded,  ///< a CUDA driver was loaded before; engines compiled at run time may be refused
};

/// For planning without a device (`Target::description`): opens a stand-in for the CUDA driver's
/// library, which is all that cuDNN misses there. Call it before the first call of CUDA or cuDNN.
/// The stand-in is ../lib/lockstep/libcuda.so.1 beside the program's folder, or that of the build;
/// the environment's LOCKSTEP_PLANNING_DRIVER names another. Throws `Error` (usage) where there is
/// none.
PlanningDriver open_planning_driver();

}  // namespace lockstep::backend::cuda
