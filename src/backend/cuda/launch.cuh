// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Defines `launch`. Only the files that instantiate it include this header.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "launch.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::backend::cuda {

/// Number of blocks for whose registers one multiprocessor must have space; 0: the compiler
/// decides.
template <class Kernel>
constexpr int resident_blocks_of = 0;

template <class Kernel>
requires(Kernel::resident_blocks >
         0) constexpr int resident_blocks_of<Kernel> = Kernel::resident_blocks;

template <class Kernel>
__global__ void __launch_bounds__(kernels::block_threads, resident_blocks_of<Kernel>)
    run_kernel(const Kernel kernel) {
  // One index per team: if this were a loop over indices, the compiler would unroll it, at the cost
  // of registers and of a 64-bit division.
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * indices_per_block<Kernel> +
                             threadIdx.x / team_of<Kernel>;
  if (index < kernel.count()) kernel(index);
}

template <class Kernel>
void launch(cudaStream_t stream, const Kernel& kernel) {
  static_assert(std::is_trivially_copyable_v<Kernel>);
  const std::int64_t blocks = launch_blocks(kernel);
  if (blocks == 0) return;
  run_kernel<Kernel>
      <<<static_cast<unsigned int>(blocks), kernels::block_threads, 0, stream>>>(kernel);
  core::check_cuda(cudaGetLastError(), "launching a kernel on the GPU");
}

}  // namespace lockstep::backend::cuda
