// SPDX-License-Identifier: BSD-3-Clause
#include "stop_limit.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "early_stop.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/process/stop_signal.hpp"
#include "lockstep/core/process/thread.hpp"

namespace lockstep::app {

using namespace std::chrono_literals;

namespace {

constexpr auto interval = 100ms;
// A launcher that ends the ranks because one has failed sends SIGTERM and, 1 s later, SIGKILL. In
// this case the rank that failed has printed a message, and this one prints none.
constexpr auto limit = 2000ms;
constexpr auto limit_of_other_ranks = 5000ms;
constexpr auto limit_at_end = 10000ms;  // an end without MPI_Finalize is an error for the launcher

}  // namespace

StopLimit::StopLimit(const Watchdog& watchdog, train::Config config, std::string who, int rank)
    : watchdog_(watchdog), config_(std::move(config)), who_(std::move(who)), rank_(rank) {
  thread_ = core::start_helper([this](const std::stop_token& stop) { watch(stop); });
}

void StopLimit::set_status(int status) { status_ = status; }

void StopLimit::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  auto waited = 0ms;
  while (!stopped_.wait_for(lock, stop, interval, [&] { return stop.stop_requested(); })) {
    const bool has_owner = core::StopSignal::count() > 1;
    waited = core::StopSignal::requested() && !has_owner ? waited + interval : 0ms;
    const auto longest = status_ >= 0 ? limit_at_end : rank_ == 0 ? limit : limit_of_other_ranks;
    if (waited >= longest) end_process();
  }
}

void StopLimit::end_process() const {
  // The main thread is blocked, so destructors might not return.
  if (status_ >= 0) _exit(status_);
  const core::Error error =
      early_stop(config_, core::StopSignal::number(), core::text_of(watchdog_.activity()));
  core::log_line(fmt::format("{}: {}", who_, error.what()));
  _exit(static_cast<int>(error.status()));
}

}  // namespace lockstep::app
