#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

namespace lockstep::core {

/// Marks on the clock of the device that does a step's work, put between pieces of it. They can be
/// read when the step has been done.
class Timeline {
 public:
  virtual ~Timeline() = default;

  /// Takes the memory for marks below `marks`, so that none is taken in a step.
  virtual void expect(std::size_t marks) = 0;

  /// Marks the moment at which the work queued before has been done. `queue`: a cudaStream_t; null:
  /// the one that the device computes on.
  virtual void mark(std::size_t index, void* queue) = 0;
  void mark(std::size_t index) { mark(index, nullptr); }

  /// Seconds from mark 0 to mark `index` in the step that was last waited for; NaN where there was
  /// no such mark.
  virtual double seconds(std::size_t index) const = 0;
};

/// The host's clock: work has been done when it returns.
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
