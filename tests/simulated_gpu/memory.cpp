// Replaces the functions of the CUDA runtime for memory, memsets and copies.

#include <cstdlib>
#include <cstring>

#include "state.hpp"

using namespace lockstep::simulated_gpu;

namespace {

WorkKind kind_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice: return WorkKind::copy_to_device;
    case cudaMemcpyDeviceToHost: return WorkKind::copy_to_host;
    default: return WorkKind::copy_on_device;
  }
}

Task copy_task(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return {kind_of(kind), [=] { std::memcpy(to, from, bytes); }, bytes};
}

Task memset_task(void* data, int value, std::size_t bytes) {
  return {WorkKind::memset, [=] { std::memset(data, value, bytes); }};
}

}  // namespace

extern "C" {

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 33;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  ++mutable_counters().allocations;
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
  enqueue(cudaStreamLegacy, memset_task(data, value, bytes));
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, memset_task(data, value, bytes));
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  ++mutable_counters().host_waits;
  enqueue(cudaStreamLegacy, copy_task(to, from, bytes, kind));
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  enqueue(stream, copy_task(to, from, bytes, kind));
  return cudaSuccess;
}

}  // extern "C"
