// Replaces the functions of the CUDA runtime for errors, versions and the device, for one simulated
// GPU.

#include <cuda_runtime_api.h>

#include <cstring>

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

}  // extern "C"
