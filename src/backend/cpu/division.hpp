#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

// Division of loops into parts and their distribution over threads.

namespace lockstep::backend::cpu {

/// a / b, rounded up, for a >= 0 and b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Indices [first, last).
struct Range {
  std::int64_t first = 0, last = 0;
};

/// Returns part `index` of `parts` parts of [0, count), which differ in size by at most 1.
constexpr Range part_of(std::int64_t count, std::int64_t index, std::int64_t parts) {
  return {count * index / parts, count * (index + 1) / parts};
}
constexpr Range part_of(Range range, std::int64_t index, std::int64_t parts) {
  const Range part = part_of(range.last - range.first, index, parts);
  return {range.first + part.first, range.first + part.last};
}

/// Returns into how many parts each of `tasks` tasks must be divided so that all threads get the
/// same number of parts; at most `most`, which is at least 1.
constexpr std::int64_t parts_per_task(std::int64_t tasks, std::int64_t threads, std::int64_t most) {
  return std::min(most, threads / std::gcd(tasks, threads));
}

}  // namespace lockstep::backend::cpu
