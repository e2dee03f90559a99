// Replaces the functions of the CUDA runtime for errors, versions and the device, for one simulated
// GPU.

#include <cuda_runtime_api.h>

#include <cstdio>

#include "runtime.hpp"

namespace {

int bus = 0;

}  // namespace

void lockstep::simulated_gpu::set_pci_bus(int number) { bus = number; }

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "simulated";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "simulated";
}
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
  std::snprintf(address, static_cast<std::size_t>(length), "0000:%02x:00.0", bus);
  return cudaSuccess;
}

}  // extern "C"
