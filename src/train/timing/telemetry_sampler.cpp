// SPDX-License-Identifier: BSD-3-Clause
#include "telemetry_sampler.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "lockstep/core/process/thread.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::train {

namespace {

double thread_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

SamplingIntervals::SamplingIntervals(double hertz)
    : interval_(std::chrono::duration<double>(1 / hertz) < longest
                    ? std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::duration<double>(1 / hertz))
                    : longest) {}

std::chrono::nanoseconds SamplingIntervals::next() {
  if (++samples_ > samples_per_interval) {
    samples_ = 1;
    interval_ = std::min(2 * interval_, longest);
  }
  return interval_;
}

TelemetrySampler::TelemetrySampler(std::size_t width, double hertz, double origin, Source source,
                                   std::size_t limit)
    : width_(width),
      limit_(limit),
      origin_(origin),
      source_(std::move(source)),
      intervals_(hertz),
      rows_(std::make_unique_for_overwrite<double[]>(limit * width)),
      thread_(core::start_helper([this](const std::stop_token& stop) { run(stop); })) {}

std::vector<double> TelemetrySampler::take() {
  const std::scoped_lock lock(mutex_);
  sample(cpu_seconds_);
  std::vector<double> rows(rows_.get(), rows_.get() + count_ * width_);
  count_ = 0;
  return rows;
}

void TelemetrySampler::sample(double cpu_seconds) {
  if (count_ == limit_) return;
  source_({.seconds = core::host_seconds() - origin_, .cpu_seconds = cpu_seconds},
          std::span(rows_.get() + count_ * width_, width_));
  ++count_;
}

void TelemetrySampler::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  using Clock = std::chrono::steady_clock;
  Clock::time_point next = Clock::now();
  while (!stop.stop_requested()) {
    sample(cpu_seconds_);
    cpu_seconds_ = thread_cpu_seconds();
    // Samples that are late are not made up for.
    next = std::max(next + intervals_.next(), Clock::now());
    stopping_.wait_until(lock, stop, next, [] { return false; });
  }
}

}  // namespace lockstep::train
