#pragma once

// Replaces launch.cuh of the CUDA backend: kernels are enqueued on the simulated stream and run on
// the host.

#include <cuda_runtime_api.h>

#include "kernels/device.hpp"
#include "launch.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::backend::cuda {

template <class Kernel>
void launch(cudaStream_t stream, const Kernel& kernel) {
  if (kernel.count() <= 0) return;
  simulated_gpu::enqueue(stream, {simulated_gpu::WorkKind::kernel, [kernel] {
                                    // In descending order, because kernels must not depend on the
                                    // order of their indices.
                                    for (std::int64_t index = kernel.count(); index-- > 0;)
                                      kernel(index);
                                  }});
}

}  // namespace lockstep::backend::cuda
