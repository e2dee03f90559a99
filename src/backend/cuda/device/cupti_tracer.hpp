#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/backend/kernel_tracer.hpp"
#include "occupancy.hpp"

namespace lockstep::backend::cuda {

/// Returns the file names under which CUPTI of a CUDA version (`cudaRuntimeGetVersion`) is
/// searched.
std::vector<std::string> cupti_names(int runtime_version);

/// Creates a tracer that uses CUPTI, which is loaded at run time from the first of `libraries` that
/// exists and stays loaded. `device`: for the occupancy. Throws `Error` (usage) if CUPTI cannot be
/// loaded or does not work on this machine. At most one tracer may exist at a time.
std::unique_ptr<KernelTracer> make_cupti_tracer(const std::vector<std::string>& libraries,
                                                const cudaOccDeviceProp& device);

}  // namespace lockstep::backend::cuda
