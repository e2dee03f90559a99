// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/device.hpp"
#include "lockstep/core/error.hpp"

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

/// Number of threads that work on one index.
template <class Kernel>
constexpr int team_of = 1;

template <class Kernel>
requires(Kernel::team > 0) constexpr int team_of<Kernel> = Kernel::team;

/// Number of indices that one block processes.
template <class Kernel>
constexpr std::int64_t indices_per_block = kernels::block_threads / team_of<Kernel>;

/// Returns the number of blocks of the launch of `kernel`, one team for each of its indices. Throws
/// `Error` (internal) if a grid cannot have that many blocks.
template <class Kernel>
std::int64_t launch_blocks(const Kernel& kernel) {
  constexpr std::int64_t most_blocks = 0x7fffffff;
  constexpr std::int64_t per_block = indices_per_block<Kernel>;
  const std::int64_t count = std::max<std::int64_t>(kernel.count(), 0);
  const std::int64_t blocks = count / per_block + (count % per_block > 0 ? 1 : 0);
  core::check(blocks <= most_blocks, "a kernel has at most 2^31 - 1 blocks");
  return blocks;
}

}  // namespace lockstep::backend::cuda
