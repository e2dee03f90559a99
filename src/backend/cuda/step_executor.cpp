// SPDX-License-Identifier: BSD-3-Clause
#include "step_executor.hpp"

#include <sched.h>

#include <nvtx3/nvtx3.hpp>

#include <algorithm>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

namespace {

static_assert(CudaTimeline::slots == StepUpload::places, "each slot has its own step inputs");

struct GraphTraits {
  using type = cudaGraph_t;
  static type null() noexcept { return nullptr; }
  static void close(type graph) noexcept {
    if (cudaGraphDestroy(graph) != cudaSuccess) core::warn_of_cleanup("cudaGraphDestroy failed");
  }
};

/// Waits until the event has completed. Calls `work.throw_if_failed()` meanwhile, to end the
/// wait.
void wait_for(const core::Event& event, StepWork& work) {
  while (true) {
    const cudaError_t status = cudaEventQuery(event.get());
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check_cuda(status, "waiting for a training step");
    work.throw_if_failed();
    sched_yield();
  }
}

}  // namespace

void GraphExecTraits::close(type graph) noexcept {
  if (cudaGraphExecDestroy(graph) != cudaSuccess)
    core::warn_of_cleanup("cudaGraphExecDestroy failed");
}

CudaStepExecutor::CudaStepExecutor(CudaPlan& plan, CudaTimeline& timeline, cudaStream_t stream,
                                   std::unique_ptr<StepWork> step_work)
    : StepExecutor(std::move(step_work)),
      plan_(plan),
      timeline_(timeline),
      stream_(stream),
      results_(core::pinned_buffer(CudaTimeline::slots * sizeof(kernels::DeviceResult))) {
  for (core::Event& event : done_) event = core::make_event();
  timeline_.create_events();
  plan_.set_coefficients({});
  run_once(&StepWork::enqueue_without_communication);  // libraries load their kernels
}

void CudaStepExecutor::run_once(void (StepWork::*queue)()) {
  begin();
  timeline_.record(core::Timeline::start);
  plan_.upload_anything();
  (work().*queue)();
  copy_result();
  end_step();
  collect();
  plan_.restart_loss_scale();
}

bool CudaStepExecutor::capture() {
  begin();
  plan_.upload_anything();
  graphs_[slot_] = capture_step();
  check_cuda(cudaStreamSynchronize(stream_), "uploading the graph of a training step");
  return !graphs_[plan_.next_place()];
}

void CudaStepExecutor::swap() {
  core::check(in_flight_.empty(), "captured steps are exchanged only if none is in flight");
  graphs_.swap(other_graphs_);
  timeline_.swap_captured();
}

GraphExec CudaStepExecutor::capture_step() {
  timeline_.set_recording(CudaTimeline::Recording::captured);
  // Other threads of this process may call the CUDA runtime during the capture.
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
             "capturing a training step");
  cudaGraph_t captured = nullptr;
  try {
    queue_step();
  } catch (...) {
    timeline_.set_recording(CudaTimeline::Recording::immediate);
    cudaStreamEndCapture(stream_, &captured);
    const core::Handle<GraphTraits> dropped(captured);
    throw;
  }
  timeline_.set_recording(CudaTimeline::Recording::immediate);
  check_cuda(cudaStreamEndCapture(stream_, &captured), "capturing a training step");
  const core::Handle<GraphTraits> graph(captured);
  cudaGraphExec_t exec = nullptr;
  // The all-reduces keep the priority of their stream.
  check_cuda(cudaGraphInstantiate(&exec, graph.get(), cudaGraphInstantiateFlagUseNodePriority),
             "instantiating the graph of a training step");
  GraphExec result(exec);
  // Otherwise the first launch would allocate the memory of the graph.
  check_cuda(cudaGraphUpload(exec, stream_), "uploading the graph of a training step");
  return result;
}

void CudaStepExecutor::begin() {
  slot_ = plan_.next_place();
  core::check(std::ranges::find(in_flight_, slot_) == in_flight_.end(),
              "a step is collected before its slot is used again");
  timeline_.select(slot_);
}

/// Queues the work and the copy of its result to the host.
void CudaStepExecutor::queue_step() {
  work().enqueue();
  copy_result();
}

void CudaStepExecutor::copy_result() {
  auto* const results = reinterpret_cast<kernels::DeviceResult*>(results_.data());
  check_cuda(cudaMemcpyAsync(results + slot_, plan_.device_result(), sizeof(kernels::DeviceResult),
                             cudaMemcpyDeviceToHost, stream_),
             "copying a step's result");
}

void CudaStepExecutor::run() {
  const nvtx3::scoped_range range("lockstep step");
  core::check(plan_.place() == slot_, "a step is run after the upload of its batch");
  if (const GraphExec& graph = graphs_[slot_]) {
    check_cuda(cudaGraphLaunch(graph.get(), stream_), "replaying a training step");
  } else {
    queue_step();
  }
  end_step();
}

void CudaStepExecutor::end_step() {
  check_cuda(cudaEventRecord(done_[slot_].get(), stream_), "recording the end of a step");
  in_flight_.push_back(slot_);
}

BatchResult CudaStepExecutor::collect() {
  core::check(!in_flight_.empty(), "only a step that was run can be collected");
  const std::size_t slot = in_flight_.front();
  in_flight_.pop_front();
  wait_for(done_[slot], work());
  timeline_.read(slot);
  const auto& result = reinterpret_cast<const kernels::DeviceResult*>(results_.data())[slot];
  return {.loss_sum = result.loss_sum, .correct = result.correct, .images = plan_.batch()};
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
