#include "../gpu_sharing.hpp"

#include <cuda_runtime_api.h>

#include <array>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/cuda.hpp"

namespace lockstep::comm {

GpuUse claim_gpu(Communicator& communicator, const core::DeviceQueue& queue, GpuUse allowed) {
  std::array<char, 32> address{};
  together(communicator, [&] {
    core::check_cuda(cudaSetDevice(queue.device), "the GPU of " + describe_rank(communicator));
    core::check_cuda(
        cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), queue.device),
        "the GPU's address");
  });
  return find_gpu_use(communicator, address.data(), allowed);
}

}  // namespace lockstep::comm
