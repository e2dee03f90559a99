// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "lockstep/core/cuda.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::backend::cuda {

/// Timestamps recorded as CUDA events. Two steps may be in flight; each slot has its own set of
/// events. Times of different steps are related by an event that was recorded when the clock was
/// set.
class CudaTimeline final : public core::Timeline {
 public:
  static constexpr std::size_t slots = 2;

  explicit CudaTimeline(cudaStream_t compute) : compute_(compute) { resize(1); }

  using Timeline::record;
  void record(core::Timestamp timestamp, void* queue) override;
  double seconds(core::Timestamp timestamp) const override { return seconds_[timestamp]; }

  void finish_step() override;

  /// Records an event on the idle stream several times, and reads the clock of the host before each
  /// and after it has completed. Uses the pair with the shortest time in between; the error is half
  /// of it, plus the resolution of the time between two events.
  core::ClockCorrection set_clock() override;
  double start_seconds() const override { return start_seconds_; }

  /// Creates the events of all timestamps that are reserved.
  void create_events();

  /// Selects the slot to which the following timestamps belong.
  void select(std::size_t slot) { slot_ = slot; }

  enum class Recording {
    immediate,  ///< record events on the stream
    captured,   ///< record events as nodes of the CUDA graph that is being captured
    none,       ///< state of a timestamp that is not recorded
  };
  void set_recording(Recording recording) { recording_ = recording; }

  /// Exchanges what is known about the timestamps with a second set, which is initially empty:
  /// those of the captured graphs of another variant of the step (`StepCaptures::swap`).
  void swap_captured();

  /// Reads the timestamps of a slot that its last step recorded. The step must be complete.
  void read(std::size_t slot);

 private:
  struct Mark {
    core::Event event;
    /// How the last step recorded the event; those of a captured graph are recorded in every step.
    Recording recording = Recording::none;
    Recording other = Recording::none;  ///< see `swap_captured`
  };

  void resize(std::size_t count) override;

  cudaStream_t compute_;
  std::size_t slot_ = 0;
  Recording recording_ = Recording::immediate;
  std::array<std::vector<Mark>, slots> marks_;
  std::vector<double> seconds_;
  /// Completed when the clock of the host was `origin_seconds_`.
  core::Event origin_ = core::make_event(core::EventUse::timing);
  core::Event attempt_ = core::make_event(core::EventUse::timing);  ///< used while the clock is set
  core::Event best_ = core::make_event(core::EventUse::timing);     ///< as `attempt_`
  double origin_seconds_ = std::numeric_limits<double>::quiet_NaN();
  double start_seconds_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace lockstep::backend::cuda
