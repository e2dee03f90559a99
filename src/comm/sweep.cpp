// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/comm/sweep.hpp"

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

double algorithm_bandwidth(std::size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds;
}

double bus_bandwidth(std::size_t bytes, double seconds, int ranks) {
  return algorithm_bandwidth(bytes, seconds) * 2.0 * (ranks - 1) / ranks;
}

std::vector<std::size_t> sweep_sizes(const SweepOptions& options) {
  if (options.min_bytes < sizeof(float) || options.max_bytes < options.min_bytes ||
      options.factor < 2 || options.repeats < 1 || options.warmup < 0) {
    core::fail(core::ExitStatus::usage,
               "the sweep's sizes or counts make no sense; give 4 <= min bytes <= max bytes, a "
               "factor of at least 2 and at least 1 repeat");
  }
  std::vector<std::size_t> sizes{options.min_bytes};
  const auto factor = static_cast<std::size_t>(options.factor);
  while (sizes.back() <= options.max_bytes / factor) sizes.push_back(sizes.back() * factor);
  return sizes;
}

}  // namespace lockstep::comm
