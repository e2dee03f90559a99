// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::backend {

/// Memory requirement of a tensor: `bytes` from operation `first` to operation `last` of the
/// schedule, inclusive.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

/// Offsets of all tensors in one arena.
struct MemoryLayout {
  std::vector<std::size_t> offsets;  ///< one per lifetime, multiples of 64
  std::size_t bytes = 0;             ///< size of the arena
};

/// Assigns offsets so that tensors that are alive at the same time do not overlap: largest tensor
/// first, each in the lowest gap that fits (greedy by size; Pisarchyk and Lee, "Efficient memory
/// management for deep neural net inference", 2020).
MemoryLayout plan_memory(std::span<const Lifetime> lifetimes);

}  // namespace lockstep::backend
