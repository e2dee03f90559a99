// SPDX-License-Identifier: BSD-3-Clause
#include "memory_planner.hpp"

#include <algorithm>
#include <numeric>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend {

namespace {

std::size_t align(std::size_t bytes) {
  constexpr std::size_t unit = core::Buffer::alignment;
  return (bytes + unit - 1) / unit * unit;
}

bool alive_together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryLayout plan_memory(std::span<const Lifetime> lifetimes) {
  std::vector<std::size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, [&](std::size_t a, std::size_t b) {
    return lifetimes[a].bytes > lifetimes[b].bytes;
  });

  MemoryLayout layout{.offsets = std::vector<std::size_t>(lifetimes.size()), .bytes = 0};
  std::vector<std::size_t> placed;  // sorted by offset
  for (const std::size_t tensor : by_size) {
    const Lifetime& lifetime = lifetimes[tensor];
    core::check(lifetime.first <= lifetime.last, "a tensor's lifetime ends after it begins");
    const std::size_t bytes = align(lifetime.bytes);
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      if (!alive_together(lifetime, lifetimes[other])) continue;
      if (layout.offsets[other] >= offset + bytes) break;  // it fits before `other`
      offset = std::max(offset, layout.offsets[other] + align(lifetimes[other].bytes));
    }
    layout.offsets[tensor] = offset;
    layout.bytes = std::max(layout.bytes, offset + bytes);
    const auto position = std::ranges::upper_bound(
        placed, offset, {}, [&](std::size_t index) { return layout.offsets[index]; });
    placed.insert(position, tensor);
  }
  return layout;
}

}  // namespace lockstep::backend
