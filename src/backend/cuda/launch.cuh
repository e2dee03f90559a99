#pragma once

// Defines `launch`. Only the files that instantiate it include this header.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "kernels/device.hpp"
#include "launch.hpp"
#include "launch_shape.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

template <class Kernel>
__global__ void __launch_bounds__(kernels::block_threads) run_kernel(const Kernel kernel) {
  constexpr std::int64_t per_block = indices_per_block<Kernel>;
  const std::int64_t count = kernel.count();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * per_block;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * per_block + threadIdx.x / team_of<Kernel>;
  // All threads of a team have the same index, so they leave the loop together.
  for (std::int64_t index = first; index < count; index += step) kernel(index);
}

template <class Kernel>
void launch(cudaStream_t stream, const Kernel& kernel) {
  static_assert(std::is_trivially_copyable_v<Kernel>);
  const LaunchShape shape = launch_shape(kernel);
  if (shape.blocks == 0) return;
  run_kernel<Kernel><<<static_cast<unsigned int>(shape.blocks),
                       static_cast<unsigned int>(shape.threads), 0, stream>>>(kernel);
  core::check_cuda(cudaGetLastError(), "launching a kernel on the GPU");
}

}  // namespace lockstep::backend::cuda
