// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "early_stop.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/progress.hpp"
#include "watchdog_peers.hpp"

namespace lockstep::app {

/// Whether the process ends with its parent process: `launcher` if mpirun, srun or the like has
/// started it.
enum class Parent { any, launcher };

/// Terminates the process with status 70 if it reports no progress for longer than a limit. If one
/// rank hangs, the others wait in a collective forever, and neither MPI nor Slurm detects it.
/// Also terminates a rank whose launcher has ended: its parent process changes.
/// Created only by `run_process`: it exists before MPI is initialised and after MPI is finalised.
class Watchdog final : public core::ProgressMonitor {
 public:
  /// A `limit` of 0 disables the watchdog. `who` names the process in the message: "rank 3 on
  /// node7".
  Watchdog(std::chrono::seconds limit, std::string who, Parent parent = Parent::any);

  void begin(core::Activity activity, std::int64_t step) override;
  void advance() noexcept override;

  /// Replaces the limit; the time without progress so far counts. 0 disables the watchdog.
  void set_limit(std::chrono::seconds limit);

  const std::string& name() const noexcept { return who_; }
  /// Thread-safe, like `step`.
  core::Activity activity() const noexcept { return activity_.load(); }
  std::int64_t step() const noexcept { return step_.load(); }
  /// Lets the watchdogs of all ranks ask each other at a timeout, so that one of them reports it
  /// and names the cause. If a rank cannot open a socket, logs a warning, and each rank reports its
  /// own timeouts. Collective: all ranks must call this.
  void connect(comm::Communicator& communicator);

  /// From now on, also ends the process some seconds after a signal (`core::StopSignal`) if nothing
  /// else does: while MPI is initialised, kernels are timed or another rank is waited for, the
  /// program cannot react, and has nothing to save. Has no effect while objects of class
  /// `StopSignal` exist besides that of `run_process`, because their owners react. `command`
  /// determines the status of a process that ends before its work is complete. Ranks other than 0
  /// wait longer, until the launcher has ended them because rank 0 has ended, so that one rank
  /// prints a message.
  void limit_stop(StoppedCommand command, int rank);
  /// States that the program is complete: a process that has received a signal ends with `status`
  /// and without a message.
  void set_status(int status);

 private:
  void watch(const std::stop_token& stop);
  [[noreturn]] void end_process();
  [[noreturn]] void end_orphan() const;
  std::chrono::milliseconds stop_limit() const;
  [[noreturn]] void end_stopped() const;
  RankProgress progress() const { return {activity(), step(), idle_seconds_}; }

  std::mutex mutex_;  ///< protects the members up to `who_`
  std::chrono::seconds limit_;
  std::optional<StoppedCommand> command_;  ///< of `limit_stop`
  int rank_ = 0;                           ///< of `limit_stop`
  std::optional<int> status_;              ///< of `set_status`
  const std::string who_;
  std::atomic<std::uint64_t> progress_ = 0;
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<core::Activity> activity_ = core::Activity::program_start;
  std::atomic<double> idle_seconds_ = 0;
  const bool is_launched_;  ///< by mpirun, srun or the like
  const pid_t launcher_;    ///< parent process at the start
  // Declared last: the threads of `peers_` and `thread_` stop before the members that they use are
  // destroyed.
  std::unique_ptr<WatchdogPeers> peers_;  ///< null until `connect`; protected by `mutex_`
  std::condition_variable_any stopping_;
  std::jthread thread_;
};

}  // namespace lockstep::app
