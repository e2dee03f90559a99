#pragma once

// In the place of the device's launch.cuh: kernels run on the host, when their turn in the stream
// comes.

#include <cuda_runtime_api.h>

#include "kernels/device.hpp"
#include "launch.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::backend::cuda {

template <class Kernel>
void launch(cudaStream_t stream, const Kernel& kernel) {
  if (kernel.count() <= 0) return;
  simulated_gpu::enqueue(stream, [kernel] {
    // Last index first: no kernel may count on an order.
    for (std::int64_t index = kernel.count(); index-- > 0;) kernel(index);
  });
}

}  // namespace lockstep::backend::cuda
