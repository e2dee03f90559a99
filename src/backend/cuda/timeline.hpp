#pragma once

#include <array>
#include <vector>

#include "lockstep/core/cuda.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::backend::cuda {

/// Timestamps recorded as CUDA events. Two steps may be in flight; each slot has its own set of
/// events.
class CudaTimeline final : public core::Timeline {
 public:
  static constexpr std::size_t slots = 2;

  explicit CudaTimeline(cudaStream_t compute) : compute_(compute) { resize(1); }

  using Timeline::record;
  void record(core::Timestamp timestamp, void* queue) override;
  double seconds(core::Timestamp timestamp) const override { return seconds_[timestamp]; }

  /// Creates the events of all timestamps that are reserved.
  void create_events();

  /// Selects the slot to which the following timestamps belong.
  void select(std::size_t slot) { slot_ = slot; }

  enum class Recording {
    immediate,  ///< record events on the stream
    captured,   ///< record events as nodes of the CUDA graph that is being captured
    none,       ///< record nothing, for a step without timestamps
  };
  void set_recording(Recording recording) { recording_ = recording; }

  /// Reads the timestamps of a slot that its last step recorded. The step must be complete.
  void read(std::size_t slot);

 private:
  struct Mark {
    core::Event event;
    /// How the last step recorded the event; those of a captured graph are recorded in every step.
    Recording recording = Recording::none;
  };

  void resize(std::size_t count) override;
  void begin_step();

  cudaStream_t compute_;
  std::size_t slot_ = 0;
  Recording recording_ = Recording::immediate;
  std::array<std::vector<Mark>, slots> marks_;
  std::vector<double> seconds_;
};

}  // namespace lockstep::backend::cuda
