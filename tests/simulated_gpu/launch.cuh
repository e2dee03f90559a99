// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Replaces launch.cuh of the CUDA backend: kernels are enqueued on the simulated stream and run on
// the host.

#include <cuda_runtime_api.h>

#include "kernels/device.hpp"
#include "launch.hpp"
#include "lockstep/core/cuda.hpp"
#include "simulated_gpu/runtime.hpp"

namespace lockstep::backend::cuda {

template <class Kernel>
void launch(cudaStream_t stream, const Kernel& kernel) {
  const std::int64_t blocks = launch_blocks(kernel);
  if (blocks == 0) return;
  static simulated_gpu::Module module;
  simulated_gpu::require_launchable(
      {.blocks = {blocks, 1, 1}, .threads = {kernels::block_threads, 1, 1}});
  if (module.load("a kernel")) {
    simulated_gpu::Task task{.kind = simulated_gpu::WorkKind::kernel, .run = [kernel] {
                               // In descending order, because kernels must not depend on the order
                               // of their indices.
                               for (std::int64_t index = kernel.count(); index-- > 0;)
                                 kernel(index);
                             }};
    simulated_gpu::add_arguments(kernel, task);
    simulated_gpu::enqueue(stream, std::move(task));
  }
  core::check_cuda(cudaGetLastError(), "launching a kernel on the GPU");
}

}  // namespace lockstep::backend::cuda
