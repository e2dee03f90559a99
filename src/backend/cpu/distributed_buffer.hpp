// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "lockstep/core/buffer.hpp"

namespace lockstep::backend::cpu {

/// Allocates a zeroed buffer and lets each of the threads write its share of it, in order of
/// memory. On a host with several NUMA nodes, the pages of a share are then on the node of its
/// thread. The shares are those of `#pragma omp for schedule(static)`, so a loop over
/// the images of a batch, or over the parameters, reads mostly local memory.
inline core::Buffer distributed_buffer(std::size_t bytes, int threads) {
  constexpr std::size_t chunk = 4096;
  core::Buffer buffer = core::Buffer::untouched(bytes);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::size_t begin = 0; begin < bytes; begin += chunk)
    std::memset(buffer.data() + begin, 0, std::min(chunk, bytes - begin));
  return buffer;
}

}  // namespace lockstep::backend::cpu
