#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace lockstep::record {

enum class LadderStatus { ok, out_of_memory };

/// One point of the batch ladder: an epoch at one batch size. What was not measured is NaN.
struct LadderRow {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  std::int64_t batch_per_rank = 0;
  LadderStatus status = LadderStatus::ok;
  std::int64_t steps = 0;             ///< that were counted
  double epoch_seconds = unknown;     ///< all of it, the slowest rank of each step
  double training_seconds = unknown;  ///< the same without waiting for data
  double images_per_second = unknown;
  bool is_extrapolated = false;  ///< the seconds are scaled up from fewer steps than an epoch has
  std::uint64_t predicted_bytes = 0;  ///< of a rank's memory at its peak
  std::uint64_t peak_bytes = 0;       ///< measured; 0 where the point did not run
};

inline std::string_view name(LadderStatus status) {
  return status == LadderStatus::ok ? "ok" : "out_of_memory";
}

}  // namespace lockstep::record
