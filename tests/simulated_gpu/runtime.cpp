// Implements the functions of the CUDA runtime that the program uses, for one simulated GPU.

#include "runtime.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <vector>

using lockstep::simulated_gpu::enqueue;
using Work = std::function<void()>;

// The types behind the opaque handles of the runtime. A captured graph contains its work items in
// the order in which they were issued to any of its streams; this order satisfies all dependencies.
struct CUgraph_st {
  std::vector<Work> works;
};
struct CUgraphExec_st {
  std::vector<Work> works;
};
struct CUstream_st {
  std::deque<Work> queue;
  std::uint64_t queued = 0, done = 0;
  std::shared_ptr<CUgraph_st> capture;
};
struct CUevent_st {
  CUstream_st* stream = nullptr;
  std::uint64_t position = 0;  ///< in the stream: complete when this many items are done
  std::shared_ptr<CUgraph_st> capture;
  std::chrono::steady_clock::time_point time;
  bool has_time = false;
};

namespace {

std::set<CUstream_st*>& streams() {
  static std::set<CUstream_st*> all;
  return all;
}

bool is_default(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

void run_until(CUstream_st* stream, std::uint64_t position) {
  while (stream->done < position && !stream->queue.empty()) {
    const Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    work();
    ++stream->done;
  }
}

void run_all() {
  for (CUstream_st* stream : streams()) run_until(stream, stream->queued);
}

int executable_graphs = 0;

}  // namespace

namespace lockstep::simulated_gpu {

int count_executable_graphs() { return executable_graphs; }

void enqueue(cudaStream_t stream, Work work) {
  if (is_default(stream)) {
    work();
  } else if (stream->capture != nullptr) {
    stream->capture->works.push_back(std::move(work));
  } else {
    stream->queue.push_back(std::move(work));
    ++stream->queued;
  }
}

}  // namespace lockstep::simulated_gpu

extern "C" {

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "simulated"; }
const char* cudaGetErrorName(cudaError_t) { return "simulated"; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int length, int) {
  std::strncpy(address, "0000:00:00.0", static_cast<std::size_t>(length));
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 33;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  run_all();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  *data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  std::memset(*data, 0xff, bytes);  // NaN in every type
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  run_all();
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned int) {
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int) {
  *stream = *streams().insert(new CUstream_st).first;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  run_until(stream, stream->queued);
  streams().erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (!is_default(stream)) run_until(stream, stream->queued);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (event->capture != nullptr) {
    stream->capture = event->capture;  // the stream joins the capture
  } else if (CUstream_st* const other = event->stream; other != nullptr) {
    enqueue(stream, [other, position = event->position] {
      if (streams().contains(other)) run_until(other, position);
    });
  }
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  run_all();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  const bool is_external = flags == cudaEventRecordExternal;
  if ((stream->capture != nullptr) != is_external && is_external)
    return cudaErrorInvalidValue;  // as CUDA: external events are valid only in a capture
  event->capture = is_external ? nullptr : stream->capture;
  if (event->capture != nullptr) return cudaSuccess;
  enqueue(stream, [event] {
    event->time = std::chrono::steady_clock::now();
    event->has_time = true;
  });
  event->stream = stream;
  event->position = stream->queued;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->stream != nullptr) run_until(event->stream, event->position);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event->stream == nullptr || event->stream->done >= event->position) return cudaSuccess;
  run_until(event->stream, event->stream->done + 1);
  return cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->has_time || !end->has_time) return cudaErrorInvalidResourceHandle;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->capture = std::make_shared<CUgraph_st>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::shared_ptr<CUgraph_st> capture = stream->capture;
  for (CUstream_st* one : streams()) {
    if (one->capture == capture) one->capture = nullptr;
  }
  *graph = new CUgraph_st(*capture);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->works};
  ++executable_graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  enqueue(stream, [works = exec->works] {
    for (const Work& work : works) work();
  });
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  --executable_graphs;
  return cudaSuccess;
}

}  // extern "C"
