#include "watchdog.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::train {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

Watchdog::Watchdog(std::chrono::seconds limit, std::string who)
    : limit_(limit), who_(std::move(who)) {
  if (limit_ > 0s) thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Watchdog::~Watchdog() = default;

void Watchdog::progress(std::int64_t step, const char* activity) noexcept {
  step_.store(step, std::memory_order_relaxed);
  activity_.store(activity, std::memory_order_relaxed);
  progress_.fetch_add(1, std::memory_order_relaxed);
}

void Watchdog::watch(const std::stop_token& stop) {
  const auto interval = std::clamp<std::chrono::milliseconds>(limit_ / 10, 20ms, 1s);
  std::uint64_t seen = progress_.load(std::memory_order_relaxed);
  auto since = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    stopped_.wait_for(lock, stop, interval, [] { return false; });
    if (const auto now = progress_.load(std::memory_order_relaxed); now != seen) {
      seen = now;
      since = Clock::now();
    } else if (!stop.stop_requested() && Clock::now() - since > limit_) {
      bark();
    }
  }
}

void Watchdog::bark() const {
  core::log_line(fmt::format(
      "{}: no progress for {} s in step {}, in '{}'; look for a rank that hangs or a dead link, or "
      "allow more with --watchdog SECONDS",
      who_, limit_.count(), step_.load(), activity_.load()));
  // The main thread is stuck: no destructor can be trusted to return.
  _exit(static_cast<int>(core::ExitStatus::internal));
}

}  // namespace lockstep::train
