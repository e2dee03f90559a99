// SPDX-License-Identifier: BSD-3-Clause
// Replaces the functions of the CUDA runtime for streams.

#include <chrono>
#include <thread>

#include "state.hpp"

namespace lockstep::simulated_gpu {

std::set<cudaStream_t>& streams() {
  static std::set<cudaStream_t> all;
  return all;
}

bool is_default(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

void run_until(cudaStream_t stream, std::uint64_t position) {
  while (stream->done < position && !stream->queue.empty()) {
    run_task(stream->queue.front());
    if (is_stopped()) return;  // the task is executed again after the abort
    stream->queue.pop_front();
    ++stream->done;
  }
}

void finish(cudaStream_t stream, std::uint64_t position) {
  run_until(stream, position);
  if (!wait_until([] { return !is_stopped(); }))
    return violation("abort of a communicator that has failed", "the host waits for the GPU");
  run_until(stream, position);
}

bool wait_until(const std::function<bool()>& holds) {
  const auto begin = std::chrono::steady_clock::now();
  while (!holds()) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(20)) return false;
    std::this_thread::yield();
  }
  return true;
}

namespace {

std::function<bool()>& stopped() {
  static std::function<bool()> function = [] { return false; };
  return function;
}

}  // namespace

bool& has_failed_kernel() {
  static bool has_failed = false;
  return has_failed;
}

bool is_stopped() { return stopped()(); }
void set_stopped(std::function<bool()> is_stopped) { stopped() = std::move(is_stopped); }

void run_task(const Task& task) {
  task.run();
  if (task.event == nullptr || is_stopped()) return;
  static std::uint64_t order = 0;
  EventState& event = *task.event;
  --event.pending;
  event.time = std::chrono::steady_clock::now();
  event.has_time = true;
  event.order = ++order;
  event.launch = current_launch();
}

void run_all() {
  for (const cudaStream_t stream : streams()) finish(stream, stream->queued);
}

void enqueue(cudaStream_t stream, Task task) {
  if (!is_default(stream) && stream->capture != nullptr) {
    require_memory(task, TaskState::captured);
    std::vector<Node>& nodes = stream->capture->nodes;
    nodes.push_back({.task = std::move(task),
                     .dependencies = std::move(stream->captured),
                     .priority = stream->priority,
                     .is_forked = stream != stream->capture->origin});
    stream->captured = {nodes.size() - 1};
    return;
  }
  task.owner = nullptr;
  require_memory(task, TaskState::queued);
  count(task, mutable_counters().issued);
  if (task.event != nullptr) ++task.event->pending;
  if (is_default(stream)) {
    run_task(task);
  } else {
    poison_results(task);
    stream->queue.push_back(std::move(task));
    ++stream->queued;
  }
}

}  // namespace lockstep::simulated_gpu

using namespace lockstep::simulated_gpu;

extern "C" {

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int priority) {
  require_no_capture("cudaStreamCreateWithPriority");
  if (allocation_fails()) return cudaErrorMemoryAllocation;
  *stream = *streams().insert(new CUstream_st).first;
  (*stream)->priority = priority;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream->capture != nullptr)
    violation("capture-unsafe call", "cudaStreamDestroy of a stream that is being captured");
  finish(stream, stream->queued);
  streams().erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  require_no_capture("cudaDeviceSynchronize");
  ++mutable_counters().host_waits;
  run_all();
  return cudaSuccess;
}
// New versions of cudnn-frontend attach the code of runtime-compiled engines to the graph that is
// being captured. This function returns no graph, so they behave as old versions, which do not.
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t* graph,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                     std::size_t*) {
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long*, cudaGraph_t* graph,
                                        const cudaGraphNode_t**, std::size_t*) {
#endif
  const bool is_captured = !is_default(stream) && stream->capture != nullptr;
  *status = is_captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  *graph = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  require_no_capture("cudaStreamSynchronize");
  ++mutable_counters().host_waits;
  if (!is_default(stream)) finish(stream, stream->queued);
  return has_failed_kernel() ? cudaErrorIllegalAddress : cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  require_no_capture("cudaStreamQuery");
  ++mutable_counters().host_waits;
  if (!is_default(stream)) run_until(stream, stream->queued);
  return is_stopped() ? cudaErrorNotReady : cudaSuccess;
}

}  // extern "C"
