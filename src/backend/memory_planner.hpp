// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::backend {

/// Operations `first` to `last` of the schedule, inclusive.
struct Period {
  int first = 0;
  int last = 0;
};

/// Extends a period, which may not exist, to another one and what is between the two.
void include(std::optional<Period>& period, Period more);

/// Memory requirement of a tensor: `bytes` from operation `first` to operation `last` of the
/// schedule, inclusive, and perhaps in a second period, at the same offset. Its contents are not
/// preserved between the two periods, in which other tensors may use the memory.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
  std::optional<Period> again{};  ///< begins after `last`
};

/// Offsets of all tensors in one arena.
struct MemoryLayout {
  std::vector<std::size_t> offsets;  ///< one per lifetime, multiples of 64
  std::size_t bytes = 0;             ///< size of the arena
};

/// Returns the largest number of bytes that are alive at the same time: a lower bound of the size
/// of every layout.
std::size_t peak_bytes(std::span<const Lifetime> lifetimes);

/// Assigns offsets so that tensors that are alive at the same time do not overlap: largest tensor
/// first, each in the lowest gap that fits (greedy by size; Pisarchyk and Lee, "Efficient memory
/// management for deep neural net inference", 2020).
MemoryLayout plan_memory(std::span<const Lifetime> lifetimes);

}  // namespace lockstep::backend
