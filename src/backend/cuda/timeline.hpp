#pragma once

#include <array>
#include <vector>

#include "lockstep/core/cuda.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::backend::cuda {

/// Marks are events. Two steps may be under way: each has a set of events of its own.
class CudaTimeline final : public core::Timeline {
 public:
  static constexpr std::size_t slots = 2;

  explicit CudaTimeline(cudaStream_t compute) : compute_(compute) {}

  using Timeline::mark;
  void expect(std::size_t marks) override;
  void mark(std::size_t index, void* queue) override;
  double seconds(std::size_t index) const override;

  /// Marks from here on belong to that step.
  void select(std::size_t slot) { slot_ = slot; }

  enum class Marks {
    now,       ///< events of the stream
    recorded,  ///< nodes of the graph that the stream is being recorded into
    none,      ///< nothing: for the step without a clock
  };
  void set_marks(Marks marks) { marks_ = marks; }

  /// Reads the times of a slot whose step has been done.
  void read(std::size_t slot);

 private:
  cudaStream_t compute_;
  std::size_t slot_ = 0;
  Marks marks_ = Marks::now;
  std::array<std::vector<core::Event>, slots> events_;
  std::vector<double> seconds_;
};

}  // namespace lockstep::backend::cuda
