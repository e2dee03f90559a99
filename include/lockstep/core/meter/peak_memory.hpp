// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace lockstep::core {

/// Peak resident memory of this process, in bytes, over intervals and in total. The kernel has one
/// peak per process (VmHWM in /proc/self/status), which `begin_interval` resets, so at most one
/// object may measure intervals at a time.
class PeakMemory {
 public:
  /// Begins an interval: sets the peak of the kernel to the current resident memory. If the kernel
  /// does not permit this (/proc/self/clear_refs is not writable), the interval begins at the start
  /// of the process.
  void begin_interval();

  /// Returns the peak since the last call of `begin_interval`.
  std::uint64_t interval() const;

  /// Returns the peak since the start of the process, or since the last interval of another object.
  std::uint64_t total() const;

 private:
  std::uint64_t earlier_ = 0;  ///< peak of all earlier intervals
};

}  // namespace lockstep::core
