// SPDX-License-Identifier: BSD-3-Clause
#include "eager_executor.hpp"

#include <sched.h>

#include <utility>

namespace lockstep::backend::cuda {

using core::check_cuda;

void wait_for(const core::Event& event, StepWork& work) {
  while (true) {
    const cudaError_t status = cudaEventQuery(event.get());
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check_cuda(status, "waiting for a training step");
    work.check();
    sched_yield();
  }
}

CudaEagerExecutor::CudaEagerExecutor(CudaTimeline& timeline, cudaStream_t stream,
                                     std::unique_ptr<StepWork> work)
    : StepExecutor(std::move(work)),
      timeline_(timeline),
      stream_(stream),
      done_(core::make_event()) {
  timeline_.create_events();
}

BatchResult CudaEagerExecutor::collect() {
  check_cuda(cudaEventRecord(done_.get(), stream_), "recording the end of a step");
  wait_for(done_, work());
  timeline_.finish_step();
  return {};
}

}  // namespace lockstep::backend::cuda
