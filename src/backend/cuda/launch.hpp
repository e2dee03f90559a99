#pragma once

#include <cstdint>

struct CUstream_st;  // cudaStream_t is a pointer to it; see cuda_runtime_api.h

namespace lockstep::backend::cuda {

/// Runs a kernel of `kernels/` over all its indices, in `stream`'s order: one thread per index, or
/// the kernel's team of threads, in blocks of 256. No indices: nothing is launched. Throws `Error`
/// (internal) where the launch fails. Exists for the kernels that the `.cu` files name.
template <class Kernel>
void launch(CUstream_st* stream, const Kernel& kernel);

}  // namespace lockstep::backend::cuda
