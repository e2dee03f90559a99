// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <deque>
#include <memory>

#include "plan.hpp"

namespace lockstep::backend::cuda {

struct GraphExecTraits {
  using type = cudaGraphExec_t;
  static type null() noexcept { return nullptr; }
  static void close(type graph) noexcept;
};
using GraphExec = core::Handle<GraphExecTraits>;

/// Captures the work of a training step into CUDA graphs and replays them. The constructor executes
/// the work once without communication, so that all code that the steps need is loaded: a full
/// memory then ends the preparation and not a step. Up to two steps are in flight: while the GPU
/// runs one, the host prepares the next. Each of the two slots has its own executable graph; the
/// graphs differ only in the place of the step's inputs, in that of its result and in the events of
/// their timestamps.
class CudaStepExecutor final : public StepExecutor, private StepCaptures {
 public:
  CudaStepExecutor(CudaPlan& plan, CudaTimeline& timeline, cudaStream_t stream,
                   std::unique_ptr<StepWork> work);

  StepCaptures* captures() override { return work().is_capturable() ? this : nullptr; }
  void begin() override;
  void run() override;
  BatchResult collect() override;
  int depth() const override { return CudaTimeline::slots; }

 private:
  void rehearse() override { run_once(&StepWork::enqueue); }
  bool capture() override;
  void swap() override;

  /// Executes a step with random images. `queue`: queues its work.
  void run_once(void (StepWork::*queue)());
  void queue_step();
  void copy_result();
  void end_step();
  GraphExec capture_step();

  CudaPlan& plan_;
  CudaTimeline& timeline_;
  cudaStream_t stream_;
  core::Buffer results_;  ///< pinned host memory: one kernels::DeviceResult per slot
  std::array<GraphExec, CudaTimeline::slots> graphs_;  ///< destroyed before the memory they use
  std::array<GraphExec, CudaTimeline::slots> other_graphs_;  ///< see `swap`
  std::array<core::Event, CudaTimeline::slots> done_;
  std::deque<std::size_t> in_flight_;
  std::size_t slot_ = 0;
};

/// Executes work that the host drives: nothing is captured, and one step is in flight. The
/// timestamps are CUDA events, as in captured steps.
class CudaEagerExecutor final : public StepExecutor {
 public:
  CudaEagerExecutor(CudaTimeline& timeline, cudaStream_t stream, std::unique_ptr<StepWork> work);

  void begin() override { timeline_.select(0); }
  void run() override { work().enqueue(); }
  BatchResult collect() override;

 private:
  CudaTimeline& timeline_;
  cudaStream_t stream_;
  core::Event done_;
};

}  // namespace lockstep::backend::cuda
