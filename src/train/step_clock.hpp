#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/core/progress.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/record/phase.hpp"

namespace lockstep::train {

/// Splits a step into phases by marks on the device's timeline, and reports each phase as progress.
/// The marks of the phases that load data are set anew in every step; those of the step's body may
/// be recorded by the device and replayed without a call.
class StepClock {
 public:
  /// Returns the number of marks of a step whose gradients are cut into `buckets`: the clock uses
  /// the marks below this number, the reducer those from it on.
  static std::size_t count_marks(std::size_t buckets);

  StepClock(core::Timeline& timeline, core::ProgressMonitor* progress, std::size_t buckets)
      : timeline_(timeline), progress_(progress), phases_(count_marks(buckets)) {}

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
  core::ProgressMonitor* progress_;    ///< may be null
  std::vector<record::Phase> phases_;  ///< by the mark at their end
  std::size_t next_ = 0;               ///< mark
  std::size_t count_ = 0;              ///< marks of a step
  std::int64_t step_ = 0;
};

}  // namespace lockstep::train
