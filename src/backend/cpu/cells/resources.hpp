// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "kernels.hpp"

namespace lockstep::backend::cpu::cells {

/// What the directions of convolutions use to compute.
struct Resources {
  const Kernels* kernels = nullptr;
  int threads = 1;
  /// Bytes of cells that a thread reads at a time. Together with the weights of one block of
  /// channels, they should stay in the L2 cache.
  std::int64_t cached_bytes = 1 << 20;
};

}  // namespace lockstep::backend::cpu::cells
