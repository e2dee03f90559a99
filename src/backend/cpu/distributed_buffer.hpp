// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "lockstep/core/buffer.hpp"

namespace lockstep::backend::cpu {

/// Allocates a zeroed buffer and lets each of the threads write its share of it, in order of
/// memory. On a host with several NUMA nodes, the pages of a share are then on the node of its
/// thread. The shares are those of `#pragma omp for schedule(static)`, so a loop over
/// the images of a batch, or over the parameters, reads mostly local memory.
core::Buffer distributed_buffer(std::size_t bytes, int threads);

}  // namespace lockstep::backend::cpu
