// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <limits>
#include <memory>

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
  explicit ProcessMeter(const std::filesystem::path& root = "/");
  ~ProcessMeter();

  ProcessUsage read() const;

 private:
  struct Files;
  std::unique_ptr<const Files> files_;
};

}  // namespace lockstep::core
