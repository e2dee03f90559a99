// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace lockstep::app {

class Watchdog;

/// While an object of this class exists, a process that ends because of a fatal signal (SIGSEGV,
/// SIGBUS, SIGFPE, SIGILL, SIGABRT) or a call of `exit` first writes a line with its rank and what
/// it was doing. After a call of `exit` the status becomes 70, because launchers may not notice a
/// rank that exits with 0. At most one object may exist. Created only by `run_process`.
class ProcessEndReport {
 public:
  /// `watchdog` must outlive this object. Must follow MPI_Init, which installs its own handlers:
  /// they are called after the line is written.
  explicit ProcessEndReport(const Watchdog& watchdog);
  ~ProcessEndReport();
  ProcessEndReport(const ProcessEndReport&) = delete;
  ProcessEndReport& operator=(const ProcessEndReport&) = delete;

  /// Disables the report: the program ends the process itself, after it has reported an error.
  static void disable() noexcept;
};

}  // namespace lockstep::app
