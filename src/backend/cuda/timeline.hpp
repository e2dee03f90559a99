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

  explicit CudaTimeline(cudaStream_t compute) : compute_(compute) {}

  using Timeline::mark;
  void expect(std::size_t marks) override;
  void mark(std::size_t index, void* queue) override;
  double seconds(std::size_t index) const override;

  /// Selects the slot to which the following timestamps belong.
  void select(std::size_t slot) { slot_ = slot; }

  enum class Marks {
    now,       ///< record events on the stream
    recorded,  ///< record events as nodes of the CUDA graph that is being captured
    none,      ///< record nothing, for a step without timestamps
  };
  void set_marks(Marks marks) { marks_ = marks; }

  /// Reads the timestamps of a slot. Its step must be complete.
  void read(std::size_t slot);

 private:
  cudaStream_t compute_;
  std::size_t slot_ = 0;
  Marks marks_ = Marks::now;
  std::array<std::vector<core::Event>, slots> events_;
  std::vector<double> seconds_;
};

}  // namespace lockstep::backend::cuda
