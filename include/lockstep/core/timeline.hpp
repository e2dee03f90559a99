#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

namespace lockstep::core {

/// Timestamps taken on the clock of the device between the parts of a training step. They can be
/// read after the step has completed.
class Timeline {
 public:
  virtual ~Timeline() = default;

  /// Reserves storage for the timestamps with an index below `marks`, so that `mark` need not
  /// extend it during a step.
  virtual void expect(std::size_t marks) = 0;

  /// Records timestamp `index` when all work submitted to `queue` so far has completed. `queue`: a
  /// cudaStream_t; null for the stream on which the device computes.
  virtual void mark(std::size_t index, void* queue) = 0;
  void mark(std::size_t index) { mark(index, nullptr); }

  /// Returns the seconds from timestamp 0 to timestamp `index` in the last step that was waited
  /// for; NaN if `index` was not recorded.
  virtual double seconds(std::size_t index) const = 0;
};

/// Timestamps of the host clock. Host functions return when their work is complete, so `mark`
/// records the current time.
class HostTimeline final : public Timeline {
 public:
  using Timeline::mark;
  void expect(std::size_t marks) override {
    if (marks > marks_.size()) marks_.resize(marks);
  }
  void mark(std::size_t index, void*) override {
    expect(index + 1);
    marks_[index] = Clock::now();
  }
  double seconds(std::size_t index) const override {
    if (index >= marks_.size() || marks_[index] < marks_[0])
      return std::numeric_limits<double>::quiet_NaN();
    return std::chrono::duration<double>(marks_[index] - marks_[0]).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> marks_ = std::vector<Clock::time_point>(1);
};

}  // namespace lockstep::core
