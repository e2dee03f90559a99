#include "occupancy.hpp"

#include <climits>
#include <limits>

namespace lockstep::backend::cuda {

double occupancy(const cudaOccDeviceProp& device, const KernelResources& kernel) {
  cudaOccFuncAttributes function;
  function.maxThreadsPerBlock = INT_MAX;
  function.numRegs = kernel.registers;
  function.sharedSizeBytes = static_cast<std::size_t>(kernel.static_shared);
  function.partitionedGCConfig = PARTITIONED_GC_OFF;
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  function.maxDynamicSharedSizeBytes = static_cast<std::size_t>(kernel.dynamic_shared);
  function.numBlockBarriers = 0;
  const cudaOccDeviceState state;  // the driver chooses the size of the shared memory
  cudaOccResult result{};
  const cudaOccError failed =
      cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, kernel.threads,
                                              static_cast<std::size_t>(kernel.dynamic_shared));
  if (failed != CUDA_OCC_SUCCESS) return std::numeric_limits<double>::quiet_NaN();
  const auto warps_of = [&](int threads) {
    return (threads + device.warpSize - 1) / device.warpSize;
  };
  return static_cast<double>(result.activeBlocksPerMultiprocessor * warps_of(kernel.threads)) /
         warps_of(device.maxThreadsPerMultiprocessor);
}

}  // namespace lockstep::backend::cuda
