// SPDX-License-Identifier: BSD-3-Clause
#include "watchdog.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/process/stop_signal.hpp"
#include "lockstep/core/process/thread.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::app {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

Watchdog::Watchdog(std::chrono::seconds limit, std::string who, Parent parent)
    : limit_(limit),
      who_(std::move(who)),
      is_launched_(parent == Parent::launcher),
      launcher_(::getppid()) {
  thread_ = core::start_helper([this](const std::stop_token& stop) { watch(stop); });
}

void Watchdog::begin(core::Activity activity, std::int64_t step) {
  step_.store(step, std::memory_order_relaxed);
  activity_.store(activity, std::memory_order_relaxed);
  advance();
}

void Watchdog::advance() noexcept { progress_.fetch_add(1, std::memory_order_relaxed); }

void Watchdog::set_limit(std::chrono::seconds limit) {
  const std::lock_guard lock(mutex_);
  limit_ = limit;
}

void Watchdog::connect(comm::Communicator& communicator) {
  if (communicator.size() == 1) return;
  try {
    auto peers = std::make_unique<WatchdogPeers>(communicator, [this] { return progress(); });
    const std::lock_guard lock(mutex_);
    peers_ = std::move(peers);
  } catch (const train::AgreedError& error) {
    if (!error.is_reporting()) return;
    core::log_warning(fmt::format("{}: {}; a timeout will not name its cause", who_, error.what()));
  }
}

void Watchdog::limit_stop(StoppedCommand command, int rank) {
  const std::lock_guard lock(mutex_);
  command_ = command;
  rank_ = rank;
}

void Watchdog::set_status(int status) {
  const std::lock_guard lock(mutex_);
  status_ = status;
}

void Watchdog::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = progress_.load(std::memory_order_relaxed);
  auto last = Clock::now();
  Clock::duration still{};      // time without progress
  Clock::duration signalled{};  // time since a signal to which no other object reacts
  while (true) {
    const auto interval =
        limit_ == 0s ? 100ms : std::min<Clock::duration>(Clock::duration(limit_) / 50, 100ms);
    stopping_.wait_for(lock, stop, interval, [] { return false; });
    if (stop.stop_requested()) return;
    const auto now = Clock::now();
    // If the whole process was stopped (by a debugger, or as a suspended job), it could not make
    // progress: time in which this thread did not run either is not counted.
    const auto passed = std::min<Clock::duration>(now - last, 5 * interval);
    last = now;
    still += passed;
    if (const auto count = progress_.load(std::memory_order_relaxed); count != seen) {
      seen = count;
      still = {};
    }
    idle_seconds_ = std::chrono::duration<double>(still).count();
    const bool is_signalled = core::StopSignal::requested() && core::StopSignal::count() == 1;
    signalled = is_signalled ? signalled + passed : Clock::duration{};
    if (is_launched_ && ::getppid() != launcher_) end_orphan();
    if (command_ && signalled >= stop_limit()) end_stopped();
    if (limit_ > 0s && still > limit_) end_process();
  }
}

std::chrono::milliseconds Watchdog::stop_limit() const {
  if (status_) return 10000ms;  // an end without MPI_Finalize is an error for the launcher
  // A launcher that ends the ranks because one has failed sends SIGTERM and, 1 s later, SIGKILL. In
  // this case the rank that failed has printed a message, and this one prints none.
  return rank_ == 0 ? 2000ms : 5000ms;
}

void Watchdog::end_stopped() const {
  // The main thread is blocked, so destructors might not return.
  if (status_) _exit(*status_);
  const core::Error error =
      early_stop(*command_, core::StopSignal::number(), core::text_of(activity()));
  core::log_line(fmt::format("{}: {}", who_, error.what()));
  _exit(static_cast<int>(error.status()));
}

void Watchdog::end_orphan() const {
  core::log_line(
      fmt::format("{}: the launcher of the ranks has ended; this rank ends as well", who_));
  _exit(static_cast<int>(core::ExitStatus::internal));
}

void Watchdog::end_process() {
  constexpr auto query_limit = 300ms;
  std::string cause;
  if (peers_) {
    const auto ranks = peers_->ask(query_limit);
    if (!ranks) {
      // Another rank reports the timeout. If this rank ended first, the launcher might kill that
      // rank before it has written its line.
      std::this_thread::sleep_for(query_limit + 1s);
      _exit(static_cast<int>(core::ExitStatus::internal));
    }
    cause = "cause: " + describe_cause(*ranks) + "; ";
  }
  core::log_line(
      fmt::format("{}: watchdog timeout: no progress for {} s during {}; {}check whether a rank "
                  "has failed or a link is down, or increase --watchdog SECONDS",
                  who_, limit_.count(), progress().describe(), cause));
  if (peers_) peers_->end_others();
  // The main thread is blocked, so destructors might not return.
  _exit(static_cast<int>(core::ExitStatus::internal));
}

}  // namespace lockstep::app
