// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

struct CUstream_st;  // cudaStream_t is a pointer to this type; see cuda_runtime_api.h

namespace lockstep::backend::cuda {

/// Enqueues a kernel of `kernels/` on `stream` for all its indices: one thread per index, or one
/// team of threads if the kernel requests it, in blocks of 256 threads. Launches nothing if there
/// are no indices. Throws `Error` (internal) if the launch fails. The `.cu` files instantiate this
/// template for each kernel.
template <class Kernel>
void launch(CUstream_st* stream, const Kernel& kernel);

/// Instantiates `launch` for a kernel template with each data type of feature maps and gradients.
#define LOCKSTEP_LAUNCH_ALL_TYPES(Kernel)                            \
  template void launch(CUstream_st*, const Kernel<float>&);          \
  template void launch(CUstream_st*, const Kernel<core::BFloat16>&); \
  template void launch(CUstream_st*, const Kernel<core::Float16>&)

}  // namespace lockstep::backend::cuda
