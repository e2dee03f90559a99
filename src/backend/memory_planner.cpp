// SPDX-License-Identifier: BSD-3-Clause
#include "memory_planner.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::backend {

namespace {

std::size_t align(std::size_t bytes) {
  constexpr std::size_t unit = core::Buffer::alignment;
  return (bytes + unit - 1) / unit * unit;
}

bool overlap(Period a, Period b) { return a.first <= b.last && b.first <= a.last; }

/// Calls visit(period) for each period of a lifetime.
template <class Visit>
void for_each_period(const Lifetime& lifetime, Visit&& visit) {
  visit(Period{lifetime.first, lifetime.last});
  if (lifetime.again) visit(*lifetime.again);
}

bool alive_together(const Lifetime& a, const Lifetime& b) {
  bool together = false;
  for_each_period(a, [&](Period of_a) {
    for_each_period(b, [&](Period of_b) { together = together || overlap(of_a, of_b); });
  });
  return together;
}

void check_periods(const Lifetime& lifetime) {
  core::check(lifetime.first <= lifetime.last, "a tensor's lifetime ends after it begins");
  core::check(!lifetime.again || (lifetime.last < lifetime.again->first &&
                                  lifetime.again->first <= lifetime.again->last),
              "the second period of a tensor's lifetime follows the first");
}

}  // namespace

void include(std::optional<Period>& period, Period more) {
  period = period ? Period{std::min(period->first, more.first), std::max(period->last, more.last)}
                  : more;
}

std::size_t peak_bytes(std::span<const Lifetime> lifetimes) {
  int end = 0;
  for (const Lifetime& lifetime : lifetimes)
    for_each_period(lifetime, [&](Period period) { end = std::max(end, period.last + 1); });
  // By operation: bytes that begin to be alive there, minus those whose last operation was before.
  std::vector<std::int64_t> changes(static_cast<std::size_t>(end) + 1);
  for (const Lifetime& lifetime : lifetimes) {
    const auto bytes = static_cast<std::int64_t>(align(lifetime.bytes));
    for_each_period(lifetime, [&](Period period) {
      changes[static_cast<std::size_t>(period.first)] += bytes;
      changes[static_cast<std::size_t>(period.last) + 1] -= bytes;
    });
  }
  std::int64_t alive = 0, peak = 0;
  for (const std::int64_t change : changes) {
    alive += change;
    peak = std::max(peak, alive);
  }
  return static_cast<std::size_t>(peak);
}

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
    check_periods(lifetime);
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
