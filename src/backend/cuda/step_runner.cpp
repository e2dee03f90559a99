#include "step_runner.hpp"

#include <sched.h>

#include <nvtx3/nvtx3.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::backend::cuda {

using core::check_cuda;

namespace {

/// Number of timed replays, each with timestamps and without, to measure the cost of timestamps.
constexpr int timed_replays = 11;

struct GraphTraits {
  using type = cudaGraph_t;
  static type null() noexcept { return nullptr; }
  static void close(type graph) noexcept {
    if (cudaGraphDestroy(graph) != cudaSuccess) core::log_warning("cudaGraphDestroy failed");
  }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void GraphExecTraits::close(type graph) noexcept {
  if (cudaGraphExecDestroy(graph) != cudaSuccess) core::log_warning("cudaGraphExecDestroy failed");
}

CudaStepRunner::CudaStepRunner(CudaPlan& plan, cudaStream_t stream)
    : plan_(plan),
      stream_(stream),
      timeline_(stream),
      results_(core::pinned_buffer(CudaTimeline::slots * sizeof(kernels::DeviceResult))) {
  for (core::Event& event : done_) event = core::make_event();
}

void CudaStepRunner::record(std::function<void()> body, bool is_recordable,
                            std::function<void()> check) {
  body_ = std::move(body);
  check_ = std::move(check);
  if (!is_recordable) return;
  // Run the step without capture first, once per slot: libraries load their kernels and open their
  // connections, and events are created.
  plan_.upload_anything();
  for (std::size_t slot = 0; slot < CudaTimeline::slots; ++slot) {
    begin();
    timeline_.mark(0);
    run();
    collect();
  }
  for (std::size_t slot = 0; slot < CudaTimeline::slots; ++slot) {
    timeline_.select(slot);
    graphs_[slot] = capture(CudaTimeline::Marks::recorded);
  }
  const GraphExec without_marks = capture(CudaTimeline::Marks::none);
  std::vector<double> with, without;
  for (int replay = 0; replay < timed_replays; ++replay) {
    with.push_back(seconds_of(graphs_[0]));
    without.push_back(seconds_of(without_marks));
  }
  plan_.restart_loss_scale();
  cost_ = {.with_marks = median(with), .without_marks = median(without)};
}

GraphExec CudaStepRunner::capture(CudaTimeline::Marks marks) {
  timeline_.set_marks(marks);
  // Other threads of this process may call the CUDA runtime during the capture.
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
             "recording a training step");
  cudaGraph_t recorded = nullptr;
  try {
    body_();
  } catch (...) {
    cudaStreamEndCapture(stream_, &recorded);
    const core::Handle<GraphTraits> dropped(recorded);
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream_, &recorded), "recording a training step");
  timeline_.set_marks(CudaTimeline::Marks::now);
  const core::Handle<GraphTraits> graph(recorded);
  cudaGraphExec_t exec = nullptr;
  check_cuda(cudaGraphInstantiate(&exec, graph.get(), 0), "making a recorded training step ready");
  return GraphExec(exec);
}

double CudaStepRunner::seconds_of(const GraphExec& graph) {
  const core::Event first = core::make_event(core::EventUse::timing);
  const core::Event last = core::make_event(core::EventUse::timing);
  check_cuda(cudaEventRecord(first.get(), stream_), "timing a step");
  check_cuda(cudaGraphLaunch(graph.get(), stream_), "replaying a training step");
  check_cuda(cudaEventRecord(last.get(), stream_), "timing a step");
  wait_for(last);
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, first.get(), last.get()), "timing a step");
  return static_cast<double>(milliseconds) * 1e-3;
}

void CudaStepRunner::begin() {
  slot_ = (slot_ + 1) % CudaTimeline::slots;
  core::check(std::ranges::find(under_way_, slot_) == under_way_.end(),
              "a step is collected before its place is used again");
  timeline_.select(slot_);
}

void CudaStepRunner::run() {
  const nvtx3::scoped_range range("lockstep step");
  if (const GraphExec& graph = graphs_[slot_]) {
    check_cuda(cudaGraphLaunch(graph.get(), stream_), "replaying a training step");
  } else {
    body_();
  }
  auto* const results = reinterpret_cast<kernels::DeviceResult*>(results_.data());
  check_cuda(cudaMemcpyAsync(results + slot_, plan_.device_result(), sizeof(kernels::DeviceResult),
                             cudaMemcpyDeviceToHost, stream_),
             "copying a step's result");
  check_cuda(cudaEventRecord(done_[slot_].get(), stream_), "marking a step's end");
  under_way_.push_back(slot_);
}

void CudaStepRunner::wait_for(const core::Event& event) const {
  while (true) {
    const cudaError_t status = cudaEventQuery(event.get());
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check_cuda(status, "waiting for a training step");
    check_();
    sched_yield();
  }
}

BatchResult CudaStepRunner::collect() {
  core::check(!under_way_.empty(), "a step that is collected was run");
  const std::size_t slot = under_way_.front();
  under_way_.pop_front();
  wait_for(done_[slot]);
  timeline_.read(slot);
  const auto& result = reinterpret_cast<const kernels::DeviceResult*>(results_.data())[slot];
  return {.loss_sum = result.loss_sum, .correct = result.correct, .images = plan_.batch()};
}

}  // namespace lockstep::backend::cuda
