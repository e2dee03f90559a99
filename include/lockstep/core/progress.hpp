#pragma once

#include <cstdint>

namespace lockstep::core {

/// Receives reports of progress, so that a watchdog can tell a slow rank from one that hangs. Code
/// that reports knows neither a clock nor a limit. Calls are cheap (a counter is incremented) and
/// allowed from any thread.
class ProgressMonitor {
 public:
  virtual ~ProgressMonitor() = default;

  /// The rank begins `activity`, a string literal such as "backward", in training step `step`
  /// (from 1; 0: outside of steps). Counts as progress.
  virtual void begin(const char* activity, std::int64_t step) noexcept = 0;

  /// A part of the present activity is complete.
  virtual void advance() noexcept = 0;
};

/// Reports to `monitor`, if there is one.
inline void begin_activity(ProgressMonitor* monitor, const char* activity,
                           std::int64_t step = 0) noexcept {
  if (monitor != nullptr) monitor->begin(activity, step);
}
inline void report_progress(ProgressMonitor* monitor) noexcept {
  if (monitor != nullptr) monitor->advance();
}

}  // namespace lockstep::core
