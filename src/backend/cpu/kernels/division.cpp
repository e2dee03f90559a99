// SPDX-License-Identifier: BSD-3-Clause
#include "division.hpp"

#include <cstring>

namespace lockstep::backend::cpu {

core::Buffer distributed_buffer(std::size_t bytes, int threads) {
  constexpr std::size_t chunk = 4096;
  core::Buffer buffer = core::Buffer::untouched(bytes);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::size_t begin = 0; begin < bytes; begin += chunk)
    std::memset(buffer.data() + begin, 0, std::min(chunk, bytes - begin));
  return buffer;
}

}  // namespace lockstep::backend::cpu
