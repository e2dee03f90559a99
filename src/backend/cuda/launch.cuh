#pragma once

// Defines `launch`. Only the files that instantiate it include this header.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/device.hpp"
#include "launch.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

/// Number of threads that work on one index.
template <class Kernel>
constexpr int team_of = 1;

template <class Kernel>
requires(Kernel::team > 0) constexpr int team_of<Kernel> = Kernel::team;

template <class Kernel>
__global__ void __launch_bounds__(kernels::block_threads) run_kernel(const Kernel kernel) {
  constexpr int per_block = kernels::block_threads / team_of<Kernel>;
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
  constexpr std::int64_t per_block = kernels::block_threads / team_of<Kernel>;
  constexpr std::int64_t most_blocks = 0x7fffffff;
  const std::int64_t count = kernel.count();
  if (count <= 0) return;
  const auto blocks =
      static_cast<unsigned int>(std::min((count + per_block - 1) / per_block, most_blocks));
  run_kernel<Kernel><<<blocks, kernels::block_threads, 0, stream>>>(kernel);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    core::fail(core::ExitStatus::internal,
               std::string("a kernel could not be launched on the GPU (") +
                   cudaGetErrorString(error) +
                   "); this is a bug, or the GPU is of a kind that this build was not made for");
  }
}

}  // namespace lockstep::backend::cuda
