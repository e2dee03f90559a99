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

 private:
  using Clock = std::chrono::steady_clock;
  void resize(std::size_t count) override { times_.resize(count); }

  std::vector<Clock::time_point> times_ = std::vector<Clock::time_point>(1);
};

}  // namespace lockstep::core
