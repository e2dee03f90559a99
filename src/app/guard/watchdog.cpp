// SPDX-License-Identifier: BSD-3-Clause
#include "watchdog.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/process/thread.hpp"

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
  {
    const std::lock_guard lock(mutex_);
    limit_ = limit;
  }
  changed_.notify_all();
}

void Watchdog::connect(comm::Communicator& communicator) {
  if (communicator.size() == 1) return;
  try {
    auto peers = std::make_unique<WatchdogPeers>(communicator, [this] { return status(); });
    const std::lock_guard lock(mutex_);
    peers_ = std::move(peers);
  } catch (const comm::AgreedError& error) {
    if (!error.is_reporting()) return;
    core::log_warning(fmt::format("{}: {}; a timeout will not name its cause", who_, error.what()));
  }
}

RankStatus Watchdog::status() const {
  RankStatus status;
  status.activity = activity_.load();
  status.step = step_.load();
  status.idle_seconds = idle_seconds_.load();
  return status;
}

void Watchdog::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = progress_.load(std::memory_order_relaxed);
  auto last = Clock::now();
  Clock::duration still{};  // time without progress
  while (!stop.stop_requested()) {
    const auto limit = limit_;
    const auto interval =
        limit == 0s ? 100ms : std::min<Clock::duration>(Clock::duration(limit) / 50, 100ms);
    changed_.wait_for(lock, stop, interval, [&] { return limit_ != limit; });
    const auto now = Clock::now();
    // If the whole process was stopped (by a debugger, or as a suspended job), it could not make
    // progress: time in which this thread did not run either is not counted.
    still += std::min<Clock::duration>(now - last, 5 * interval);
    last = now;
    if (const auto count = progress_.load(std::memory_order_relaxed); count != seen) {
      seen = count;
      still = {};
    }
    idle_seconds_ = std::chrono::duration<double>(still).count();
    if (is_launched_ && ::getppid() != launcher_) end_orphan();
    if (limit_ > 0s && still > limit_ && !stop.stop_requested()) end_process();
  }
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
  const std::int64_t step = step_.load();
  core::log_line(
      fmt::format("{}: watchdog timeout: no progress for {} s during {}{}; {}check whether a rank "
                  "has failed or "
                  "a link is down, or increase --watchdog SECONDS",
                  who_, limit_.count(), core::text_of(activity_.load()),
                  step > 0 ? fmt::format(" of step {}", step) : "", cause));
  if (peers_) peers_->end_others();
  // The main thread is blocked, so destructors might not return.
  _exit(static_cast<int>(core::ExitStatus::internal));
}

}  // namespace lockstep::app
