#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/core/progress.hpp"

namespace lockstep::app {

/// Terminates the process with status 70 if it reports no progress for longer than a limit. If one
/// rank hangs, the others wait in a collective forever, and neither MPI nor Slurm detects it.
/// Created only by `main`: it exists before MPI is initialised and after MPI is finalised.
class Watchdog final : public core::ProgressMonitor {
 public:
  /// A `limit` of 0 disables the watchdog. `who` names the process in the message: "rank 3 on
  /// node7".
  Watchdog(std::chrono::seconds limit, std::string who);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void begin(const char* activity, std::int64_t step) noexcept override;
  void advance() noexcept override;

  /// Returns the current activity. Thread-safe.
  const char* activity() const { return activity_.load(std::memory_order_relaxed); }

  /// Replaces the limit; the time without progress so far counts. 0 disables the watchdog.
  void set_limit(std::chrono::seconds limit);
  void set_name(std::string who);

 private:
  void watch(const std::stop_token& stop);
  [[noreturn]] void end_process() const;

  std::mutex mutex_;  ///< protects `limit_` and `who_`
  std::chrono::seconds limit_;
  std::string who_;
  std::atomic<std::uint64_t> progress_ = 0;
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<const char*> activity_ = "program start";
  std::condition_variable_any changed_;
  // Declared last: the thread stops before the members that it uses are destroyed.
  std::jthread thread_;
};

}  // namespace lockstep::app
