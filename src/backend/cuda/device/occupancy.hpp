#pragma once

#include <cuda_runtime.h>
// Must follow the header of the runtime, whose types it uses.
#include <cuda_occupancy.h>

#include <cstdint>

namespace lockstep::backend::cuda {

/// Resources of one launch of a kernel.
struct KernelResources {
  int threads = 0;                 ///< per block
  int registers = 0;               ///< per thread
  std::int64_t static_shared = 0;  ///< bytes of shared memory per block
  std::int64_t dynamic_shared = 0;
};

/// Returns the theoretical occupancy: the warps of the thread blocks that can be resident on a
/// multiprocessor at once, divided by its maximum number of warps; NaN if the CUDA toolkit does not
/// know the GPU. Source: the occupancy calculator of the CUDA toolkit (cuda_occupancy.h).
double occupancy(const cudaOccDeviceProp& device, const KernelResources& kernel);

}  // namespace lockstep::backend::cuda
