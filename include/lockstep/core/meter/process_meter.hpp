// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>

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

/// How this process and others used its processors, those on which it may run, during an interval;
/// NaN if the system does not provide a value.
struct ProcessorUsage {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double wall_seconds = unknown;
  double cpu_seconds = unknown;  ///< processor time of all threads of the process
  /// Time that a thread was ready to run but waited for a processor: the largest one of the first
  /// thread and of the other threads that were ready to run for at least half of the interval.
  double run_delay_seconds = unknown;
  double busy_seconds = unknown;  ///< time that the processors ran any process, summed over them
  /// The same of the other processors of the host. They share its memory and its clock rates.
  double other_busy_seconds = unknown;
  /// Time that a hypervisor ran something else although the processors had work, summed over them.
  double steal_seconds = unknown;
  /// Periods in which a control group of the process had used up its CPU quota, summed over its
  /// control groups.
  double throttled_periods = unknown;

  /// Returns the share of the interval for which the process lacked a processor: the run delay, or
  /// the share of the work of its processors that a hypervisor delayed, if that is larger.
  double lacking_share() const;
};

/// Share of an interval from which the lack of a processor spoils its times (docs/analysis.md).
constexpr double lacking_limit = 0.05;

/// Measures `ProcessorUsage` over intervals: getrusage(2), /proc/self/task/*/schedstat, /proc/stat
/// and cpu.stat of the control groups.
class ProcessorMeter {
 public:
  /// `root`: directory that contains `proc` and `sys`; tests replace it.
  explicit ProcessorMeter(const std::filesystem::path& root = "/");
  ~ProcessorMeter();
  ProcessorMeter(const ProcessorMeter&) = delete;
  ProcessorMeter& operator=(const ProcessorMeter&) = delete;

  /// Begins an interval. The processors are those on which the calling thread may run now.
  void begin_interval();
  /// Returns the usage since the last call of `begin_interval`.
  ProcessorUsage interval() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::core
