#pragma once

#include <array>
#include <deque>
#include <functional>

#include "lockstep/backend/backend.hpp"
#include "plan.hpp"
#include "timeline.hpp"

namespace lockstep::backend::cuda {

struct GraphExecTraits {
  using type = cudaGraphExec_t;
  static type null() noexcept { return nullptr; }
  static void close(type graph) noexcept;
};
using GraphExec = core::Handle<GraphExecTraits>;

/// Captures the body of a training step into CUDA graphs and replays them. Up to two steps are in
/// flight: while the GPU runs one, the host prepares the next. Each of the two slots has its own
/// executable graph; the graphs differ only in the events of their timestamps.
class CudaStepRunner final : public StepRunner {
 public:
  CudaStepRunner(CudaPlan& plan, cudaStream_t stream);

  core::Timeline& timeline() override { return timeline_; }
  void record(std::function<void()> body, bool is_recordable, std::function<void()> check) override;
  void begin() override;
  void run() override;
  BatchResult collect() override;
  int depth() const override { return CudaTimeline::slots; }
  ClockCost clock_cost() const override { return cost_; }

 private:
  GraphExec capture(CudaTimeline::Marks marks);
  double seconds_of(const GraphExec& graph);
  void wait_for(const core::Event& event) const;

  CudaPlan& plan_;
  cudaStream_t stream_;
  CudaTimeline timeline_;
  std::function<void()> body_, check_;
  std::array<GraphExec, CudaTimeline::slots> graphs_;
  std::array<core::Event, CudaTimeline::slots> done_;
  core::Buffer results_;  ///< pinned host memory: one kernels::DeviceResult per slot
  std::deque<std::size_t> under_way_;
  std::size_t slot_ = 0;
  ClockCost cost_;
};

}  // namespace lockstep::backend::cuda
