#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/core/progress.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/record/phase.hpp"

namespace lockstep::train {

/// Measures the phases of a step with timestamps on the timeline of the device, and reports the
/// start of each phase as progress. The host records the timestamps of the phases that load data in
/// every step; those of the step body may be captured in a CUDA graph and replayed without calls of
/// the host.
class StepClock {
 public:
  /// Returns the number of timestamps of a step whose gradients are divided into `buckets` buckets:
  /// the clock uses the timestamps below this number, the reducer those from it on.
  static std::size_t count_marks(std::size_t buckets);

  StepClock(core::Timeline& timeline, core::ProgressMonitor* progress, std::size_t buckets)
      : timeline_(timeline), progress_(progress), phases_(count_marks(buckets)) {}

  /// Starts step `step`, counted from 1.
  void begin(std::int64_t step);
  /// Starts the body of the step.
  void begin_body();
  /// Ends `phase`, which includes all work since the previous timestamp.
  void end(record::Phase phase);

  /// Returns the phase durations of the last collected step.
  record::PhaseSeconds seconds() const;

 private:
  static constexpr std::size_t body = 3;  ///< timestamp 0: start; 1, 2: ends of data phases

  core::Timeline& timeline_;
  core::ProgressMonitor* progress_;    ///< may be null
  std::vector<record::Phase> phases_;  ///< phase that ends at each timestamp
  std::size_t next_ = 0;               ///< id of the next timestamp
  std::size_t count_ = 0;              ///< number of timestamps of a step
  std::int64_t step_ = 0;
};

}  // namespace lockstep::train
