// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/train/config.hpp"
#include "watchdog.hpp"

namespace lockstep::app {

/// Ends the process some seconds after a signal (`core::StopSignal`) if nothing else does: while
/// MPI is initialised, kernels are timed or another rank is waited for, the program cannot react,
/// and has nothing to save. Has no effect while objects of class `StopSignal` exist besides that of
/// `run_process`, because their owners react. Created only by `run_process`.
class StopLimit {
 public:
  /// `config` determines the status of a process that ends before its work is complete. `who` and
  /// `rank`: this process. Ranks other than 0 wait longer, until the launcher has ended them
  /// because rank 0 has ended, so that one rank prints a message.
  StopLimit(const Watchdog& watchdog, train::Config config, std::string who, int rank);

  /// States that the program is complete: from now on the process ends with `status` and without a
  /// message.
  void set_status(int status);

 private:
  void watch(const std::stop_token& stop);
  [[noreturn]] void end_process() const;

  const Watchdog& watchdog_;
  const train::Config config_;
  const std::string who_;
  const int rank_;
  std::atomic<int> status_ = -1;  ///< -1: the program is not complete
  std::mutex mutex_;
  // A member, because its constructor allocates memory, and an exception in the thread would end
  // the process.
  std::condition_variable_any stopped_;
  // Declared last: the thread stops before the members that it uses are destroyed.
  std::jthread thread_;
};

}  // namespace lockstep::app
