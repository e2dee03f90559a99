#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::train {

/// Ends the process (status 70) where it makes no progress for too long: a rank that hangs leaves
/// the others in a collective for ever, and neither MPI nor Slurm notices.
class Watchdog {
 public:
  /// `limit` of 0 watches nothing. `who`: "rank 3 on node7".
  Watchdog(std::chrono::seconds limit, std::string who);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Progress: `step` (from 1) now does `activity`, which must live for ever.
  void progress(std::int64_t step, const char* activity) noexcept;

 private:
  void watch(const std::stop_token& stop);
  [[noreturn]] void bark() const;

  std::chrono::seconds limit_;
  std::string who_;
  std::atomic<std::uint64_t> progress_ = 0;
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<const char*> activity_ = "start";
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: it stops before what it uses goes
};

}  // namespace lockstep::train
