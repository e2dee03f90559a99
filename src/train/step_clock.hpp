#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/core/timeline.hpp"
#include "lockstep/record/phase.hpp"
#include "watchdog.hpp"

namespace lockstep::train {

/// Splits a step into phases by marks on the device's timeline, and tells the watchdog of each. The
/// marks of the data's phases are made anew in every step; those of the body may be recorded by the
/// device and come again without a call.
class StepClock {
 public:
  /// Marks from here on are left to others.
  static constexpr std::size_t first_free_mark = 1024;

  StepClock(core::Timeline& timeline, Watchdog& watchdog)
      : timeline_(timeline), watchdog_(watchdog) {}

  /// `step` counted from 1.
  void begin(std::int64_t step);
  /// What follows is the step's body.
  void begin_body();
  /// What has been done since the last mark belongs to `phase`.
  void end(record::Phase phase);

  /// Of the step that was last collected.
  record::PhaseSeconds seconds() const;

 private:
  static constexpr std::size_t body = 3;  ///< mark 0: the beginning; 1, 2: the data's phases

  core::Timeline& timeline_;
  Watchdog& watchdog_;
  std::vector<record::Phase> phases_ =
      std::vector<record::Phase>(first_free_mark);  ///< by the mark at their end
  std::size_t next_ = 0;                            ///< mark
  std::size_t count_ = 0;                           ///< marks of a step
  std::int64_t step_ = 0;
};

}  // namespace lockstep::train
