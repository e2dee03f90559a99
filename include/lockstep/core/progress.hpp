// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "lockstep/core/activity.hpp"

namespace lockstep::core {

/// Interface for progress reports, with which a watchdog distinguishes a slow rank from one that
/// hangs. Code that reports progress needs no clock and no time limit. Calls are cheap (they
/// increment a counter).
class ProgressMonitor {
 public:
  virtual ~ProgressMonitor() = default;

  /// Reports that the rank begins `activity` in training step `step` (counted from 1; 0 outside of
  /// training steps). Counts as progress. Called by the main thread only.
  virtual void begin(Activity activity, std::int64_t step) = 0;

  /// Reports that a part of the current activity is complete. Thread-safe.
  virtual void advance() noexcept = 0;
};

/// Calls `monitor->begin`; does nothing if `monitor` is null.
inline void begin_activity(ProgressMonitor* monitor, Activity activity, std::int64_t step = 0) {
  if (monitor != nullptr) monitor->begin(activity, step);
}
/// Calls `monitor->advance`; does nothing if `monitor` is null.
inline void report_progress(ProgressMonitor* monitor) noexcept {
  if (monitor != nullptr) monitor->advance();
}

}  // namespace lockstep::core
