// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "lockstep/backend/step_executor.hpp"
#include "timeline.hpp"

namespace lockstep::backend::cuda {

/// Waits until the event has completed. Calls `work.check()` meanwhile, which throws to end the
/// wait.
void wait_for(const core::Event& event, StepWork& work);

/// Executes work that the host drives: nothing is captured, and one step is in flight. The
/// timestamps are CUDA events, as in captured steps.
class CudaEagerExecutor final : public StepExecutor {
 public:
  CudaEagerExecutor(CudaTimeline& timeline, cudaStream_t stream, std::unique_ptr<StepWork> work);

  void begin() override { timeline_.select(0); }
  void run() override { work().queue(); }
  BatchResult collect() override;

 private:
  CudaTimeline& timeline_;
  cudaStream_t stream_;
  core::Event done_;
};

}  // namespace lockstep::backend::cuda
