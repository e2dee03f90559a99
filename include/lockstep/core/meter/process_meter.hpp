// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

#include "lockstep/core/meter/counter_file.hpp"

namespace lockstep::core {

/// Resources that this process has used, over all its threads; NaN if the system does not provide a
/// value.
struct ProcessUsage {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double user_seconds = unknown;    ///< processor time in user mode since the start of the process
  double system_seconds = unknown;  ///< processor time in the kernel since the start of the process
  double resident_bytes = unknown;  ///< current resident memory
  double voluntary_switches = unknown;    ///< context switches because a thread waited
  double involuntary_switches = unknown;  ///< context switches by the scheduler
};

/// Reads the resources that this process uses (getrusage(2), /proc/self/statm). Reading allocates
/// no memory.
class ProcessMeter {
 public:
  /// `root`: directory that contains `proc`; tests replace it.
  explicit ProcessMeter(const std::filesystem::path& root = "/")
      : memory_(root / "proc/self/statm") {}

  ProcessUsage read() const;

 private:
  CounterFile memory_;
};

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
