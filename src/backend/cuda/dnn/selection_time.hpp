// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <chrono>

namespace lockstep::backend::cuda {

/// The time that is left for building and timing engines.
class SelectionTime {
 public:
  using Clock = std::chrono::steady_clock;

  /// `limit`: total time in seconds; 0: no limit.
  explicit SelectionTime(double limit) : is_limited_(limit > 0), left_(limit) {}

  bool is_limited() const { return is_limited_; }
  bool is_over() const { return is_limited_ && left_ <= 0; }

  /// Returns the end of a period that begins now and has `share` (0 to 1) of the time left.
  Clock::time_point deadline(double share) const {
    if (!is_limited_) return Clock::time_point::max();
    const std::chrono::duration<double> seconds(std::max(0.0, left_ * std::min(share, 1.0)));
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
  }

  /// A period that selects engines. The destructor subtracts its length from the time left.
  class Period {
   public:
    explicit Period(SelectionTime& time) : time_(time) {}
    ~Period() { time_.left_ -= std::chrono::duration<double>(Clock::now() - begin_).count(); }
    Period(const Period&) = delete;
    Period& operator=(const Period&) = delete;

   private:
    SelectionTime& time_;
    Clock::time_point begin_ = Clock::now();
  };

 private:
  bool is_limited_;
  double left_;  ///< seconds
};

}  // namespace lockstep::backend::cuda
