// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/core/progress.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/record/run_records.hpp"
#include "lockstep/train/timing/operation_clock.hpp"

namespace lockstep::train {

/// Measures the phases of a step with timestamps on the timeline of the device, and reports the
/// start of each phase that the host executes as progress. A step has two parts: the phases that
/// prepare the batch, whose timestamps the host records in every step, and the phases of the work
/// that is the same in every step, whose timestamps may be captured in a CUDA graph and replayed
/// without calls of the host.
class StepClock {
 public:
  /// Reserves the timestamps of a step whose gradients are divided into `buckets` buckets.
  /// `operations`: also notified of the end of each phase; null without a profile.
  StepClock(core::Timeline& timeline, core::ProgressMonitor* monitor, std::size_t buckets,
            OperationClock* operations = nullptr);
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  /// Starts step `step`, counted from 1.
  void begin(std::int64_t step);
  /// Starts the work that is the same in every step.
  void begin_work();
  /// Ends `phase`, which includes all work since the previous timestamp.
  void end(record::Phase phase);

  /// Returns the listener of the backward pass: `reducer`, or one that also measures it.
  core::GradientListener& observe(core::GradientListener& reducer) {
    return operations_ == nullptr ? reducer : operations_->observe(reducer);
  }

  /// Returns the phase durations of the last collected step.
  record::PhaseSeconds seconds() const;

 private:
  struct Part {
    explicit Part(core::TimestampRange range) : timestamps(range), phases(range.size()) {}

    core::TimestampRange timestamps;
    std::vector<record::Phase> phases;  ///< phase that ends at each timestamp
    std::size_t recorded = 0;           ///< number of timestamps recorded in the last step
  };

  core::Timeline& timeline_;
  core::ProgressMonitor* monitor_;  ///< may be null
  OperationClock* operations_;      ///< may be null
  Part batch_, work_;
  Part* part_ = &batch_;
  std::int64_t step_ = 0;
};

}  // namespace lockstep::train
