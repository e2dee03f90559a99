// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

#include "lockstep/core/error.hpp"

namespace lockstep::core {

/// Index of a timestamp of a training step.
using Timestamp = std::size_t;

/// Consecutive timestamps that `Timeline::reserve` has assigned to one user of the timeline.
class TimestampRange {
 public:
  TimestampRange() = default;
  TimestampRange(Timestamp first, std::size_t size) : first_(first), size_(size) {}

  std::size_t size() const { return size_; }
  /// Returns timestamp `index` of the range. Throws `Error` (internal) if the range has ended.
  Timestamp operator[](std::size_t index) const {
    check(index < size_, "a step records only the timestamps that were reserved");
    return first_ + index;
  }

 private:
  Timestamp first_ = 0;
  std::size_t size_ = 0;
};

/// Returns the time of the monotonic clock of the host (steady_clock) in seconds since its epoch.
inline double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Result of `Timeline::set_clock`, in seconds.
struct ClockCorrection {
  double drift = 0;  ///< clock of the timeline minus clock of the host, before it was set
  double error = 0;  ///< bound on the absolute error of `drift` and of the clock that was set
};

/// Timestamps taken on the clock of the device between the parts of a training step. They can be
/// read after the step has completed.
class Timeline {
 public:
  /// The start of the step, to which all other timestamps are relative.
  static constexpr Timestamp start = 0;

  virtual ~Timeline() = default;

  /// Assigns `count` timestamps, with their storage, to the caller. Each user of a timeline
  /// reserves its own, so that no two users record the same one.
  TimestampRange reserve(std::size_t count) {
    const TimestampRange range(reserved_, count);
    reserved_ += count;
    resize(reserved_);
    return range;
  }

  /// Records `timestamp` when all work submitted to `queue` so far has completed. `queue`: a
  /// cudaStream_t; null for the stream on which the device computes.
  virtual void record(Timestamp timestamp, void* queue) = 0;
  void record(Timestamp timestamp) { record(timestamp, nullptr); }

  /// Returns the seconds from the start of the step to `timestamp` in the last step that was waited
  /// for; NaN if it was not recorded.
  virtual double seconds(Timestamp timestamp) const = 0;

  /// Waits for the timestamps that were recorded after the last step was waited for, and makes them
  /// readable. No other step may be in flight.
  virtual void finish_step() {}

  /// Sets the clock of `start_seconds` to `host_seconds`. No step may be in flight. The first call
  /// returns a drift of 0.
  virtual ClockCorrection set_clock() { return {}; }
  /// Returns the time of `start` in the last step that was waited for, in seconds on a clock that
  /// `set_clock` sets to that of the host; NaN if `start` was not recorded or the clock not set.
  virtual double start_seconds() const = 0;

 private:
  /// Allocates storage for the timestamps below `count`, which never decreases.
  virtual void resize(std::size_t count) = 0;

  std::size_t reserved_ = 1;
};

/// Timestamps of the host clock. Host functions return when their work is complete, so `record`
/// reads the current time.
class HostTimeline final : public Timeline {
 public:
  using Timeline::record;
  void record(Timestamp timestamp, void*) override { times_[timestamp] = Clock::now(); }
  double seconds(Timestamp timestamp) const override {
    if (times_[timestamp] < times_[start]) return std::numeric_limits<double>::quiet_NaN();
    return std::chrono::duration<double>(times_[timestamp] - times_[start]).count();
  }
  double start_seconds() const override {
    return std::chrono::duration<double>(times_[start].time_since_epoch()).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  void resize(std::size_t count) override { times_.resize(count); }

  std::vector<Clock::time_point> times_ = std::vector<Clock::time_point>(1);
};

}  // namespace lockstep::core
