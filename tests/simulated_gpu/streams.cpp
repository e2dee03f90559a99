// Replaces the functions of the CUDA runtime for streams.

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
    const Task task = std::move(stream->queue.front());
    stream->queue.pop_front();
    task.run();
    ++stream->done;
  }
}

void run_all() {
  for (const cudaStream_t stream : streams()) run_until(stream, stream->queued);
}

void enqueue(cudaStream_t stream, Task task) {
  if (!is_default(stream) && stream->capture != nullptr) {
    std::vector<Node>& nodes = stream->capture->nodes;
    nodes.push_back({std::move(task), std::move(stream->captured)});
    stream->captured = {nodes.size() - 1};
    return;
  }
  count(task, mutable_counters().issued);
  if (is_default(stream)) {
    task.run();
  } else {
    stream->queue.push_back(std::move(task));
    ++stream->queued;
  }
}

}  // namespace lockstep::simulated_gpu

using namespace lockstep::simulated_gpu;

extern "C" {

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
cudaError_t cudaDeviceSynchronize() {
  ++mutable_counters().host_waits;
  run_all();
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++mutable_counters().host_waits;
  if (!is_default(stream)) run_until(stream, stream->queued);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

}  // extern "C"
