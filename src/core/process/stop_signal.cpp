// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/stop_signal.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>

#include "lockstep/core/process/processors.hpp"

namespace lockstep::core {

namespace {

// A signal handler can only reach variables at file scope, and only lock-free atomic ones.
std::atomic<int> received_signal = 0;
std::atomic<std::int64_t> arrival = 0;  ///< of the first signal, in nanoseconds
std::atomic<int> objects = 0;
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now() {
  std::timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);  // may be called in a signal handler
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void request_stop(int number) {
  if (received_signal.load() == 0) arrival.store(now());
  received_signal.store(number);
}

}  // namespace

StopSignal::StopSignal() {
  if (objects++ > 0) return;
  received_signal = 0;
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], nullptr, &previous_[i]);
  install_handlers();
}

void StopSignal::install_handlers() const {
  for (std::size_t i = 0; i < signals.size(); ++i) {
    if (signals[i] == SIGHUP && previous_[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = request_stop;
    action.sa_flags = SA_RESTART;
    if (signals[i] == SIGINT) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(signals[i], &action, nullptr);
  }
}

StopSignal::~StopSignal() {
  if (--objects > 0) return;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], &previous_[i], nullptr);
  }
}

int StopSignal::number() { return received_signal; }

double StopSignal::seconds() {
  return requested() ? static_cast<double>(now() - arrival) * 1e-9 : 0;
}

int StopSignal::count() { return objects; }

void lower_processor_time_limit(double seconds) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return;
  const auto hard = static_cast<double>(limit.rlim_max);
  const auto processors = static_cast<double>(allowed_processors().size());
  const double soft = std::max(hard - seconds * processors, 0.9 * hard);
  limit.rlim_cur = std::min(limit.rlim_cur, static_cast<rlim_t>(soft));
  ::setrlimit(RLIMIT_CPU, &limit);  // on failure, the limit is as before
}

}  // namespace lockstep::core
