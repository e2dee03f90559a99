// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/meter/process_meter.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/graph/graph.hpp"

// Memory of networks that consist of equal layers, on one device, and the search for the deepest.
namespace lockstep::study {

/// Returns the options of a plan whose gradients are those of one device alone.
inline backend::PlanOptions without_reduction(backend::PlanOptions options) {
  options.gradient_reduction = backend::GradientReduction::none;
  options.gradient_portion = 0;
  return options;
}

/// Returns the memory of a plan and its state in bytes, from shapes.
inline std::uint64_t estimate_bytes(const backend::PlanOptions& options, const graph::Graph& graph,
                                    const backend::Backend& backend) {
  return backend.least_memory(graph, options).total();
}

/// Returns the bytes of the memory limit that are in use before the plan: those of this process if
/// the device uses host memory, else 0, because the limit is then the free memory of the device.
inline std::uint64_t base_bytes(const backend::Backend& backend) {
  return backend.device().available_memory() ? 0 : core::resident_memory().now;
}

/// Measures the increase of the memory in use since the construction of this object: its peak in
/// host memory, its value at the call of `bytes` in device memory.
class MemoryIncrease {
 public:
  explicit MemoryIncrease(const backend::Backend& backend)
      : backend_(backend), free_before_(backend.device().available_memory()) {
    peak_.begin_interval();
  }

  std::uint64_t bytes() const {
    if (free_before_) return difference(*free_before_, *backend_.device().available_memory());
    return difference(peak_.interval(), resident_before_);
  }

 private:
  static std::uint64_t difference(std::uint64_t large, std::uint64_t small) {
    return large > small ? large - small : 0;
  }

  const backend::Backend& backend_;
  std::optional<std::uint64_t> free_before_;
  std::uint64_t resident_before_ = core::resident_memory().now;
  core::PeakMemory peak_;
};

/// Returns the largest n in [0, most] for which `fits(n)` is true; 0 counts as true. `fits` must be
/// true up to some n and false above it. `guess`: where the search begins; the number of calls
/// grows with the logarithm of the distance from it. `fits` has been called for the result, unless
/// it is 0, and for the result plus 1, unless that exceeds `most`.
inline std::int64_t find_deepest(std::int64_t guess, std::int64_t most,
                                 const std::function<bool(std::int64_t)>& fits) {
  std::int64_t low = 0, high = most + 1;  // low fits, high does not
  bool found_low = false, found_high = false;
  std::int64_t at = std::clamp<std::int64_t>(guess, 1, most), stride = 1;
  while (low + 1 < high) {
    if (fits(at)) {
      low = at;
      found_low = true;
    } else {
      high = at;
      found_high = true;
    }
    if (found_low && found_high) {
      at = low + (high - low) / 2;
    } else {
      at = found_low ? std::min(low + stride, most) : std::max<std::int64_t>(high - stride, 1);
      stride *= 2;
    }
  }
  return low;
}

}  // namespace lockstep::study
