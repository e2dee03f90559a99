// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <csignal>

namespace lockstep::core {

/// While an object of this class exists, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU
/// request a stop instead of terminating the process. A second SIGINT terminates it immediately. An
/// ignored SIGHUP remains ignored, as `nohup` requires. Objects may be nested: the outermost one
/// installs the signal handlers, and a request persists until this object is destroyed. The start
/// of the process owns the outermost one; every other object states that its owner reacts to
/// requests.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Installs the handlers. To be called again after a library may have replaced them: UCX, which
  /// MPI_Init loads on some clusters, handles SIGHUP. Only for the outermost object.
  void install_handlers() const;

  /// Returns whether this process has received one of the signals.
  static bool requested() { return number() != 0; }
  /// Returns the number of the last of these signals; 0 if none was received.
  static int number();
  /// Returns the seconds since the arrival of the first of these signals; 0 if none was received.
  static double seconds();
  /// Returns the number of existing objects. Thread-safe.
  static int count();

 private:
  static constexpr std::array signals{SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};
  std::array<struct sigaction, signals.size()> previous_{};
};

/// Makes SIGXCPU precede the SIGKILL with which the kernel enforces the hard limit of processor
/// time (RLIMIT_CPU): lowers the soft limit to `seconds` on all processors of the process below the
/// hard limit, but to no less than 90 % of it. `ulimit -t` sets both limits to the same value.
void lower_processor_time_limit(double seconds);

}  // namespace lockstep::core
