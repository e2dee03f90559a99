#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/device_queue.hpp"

namespace lockstep::comm {

/// Identifies the GPU on which a rank computes.
struct GpuPlace {
  int host = 0;     ///< `Communicator::host`
  std::string gpu;  ///< PCI bus id on that host: "0000:1B:00.0"

  bool operator==(const GpuPlace&) const = default;
};

/// Whether ranks share GPUs.
enum class GpuUse {
  own,     ///< every rank has a separate GPU
  shared,  ///< at least two ranks use the same GPU
};

/// Returns the first two ranks that use the same GPU; empty if there are none.
std::optional<std::pair<int, int>> first_sharers(std::span<const GpuPlace> places);

/// Returns whether any ranks share a GPU. `gpu`: PCI bus id of the GPU of this rank. Throws
/// `AgreedError` (usage), naming two ranks, if they share a GPU and `allowed` is `own`. Collective:
/// all ranks must call this.
GpuUse find_gpu_use(Communicator& communicator, const std::string& gpu, GpuUse allowed);

/// Makes the device of `queue` the current CUDA device and compares its PCI bus id with those of
/// the other ranks; returns whether any ranks share a GPU. Throws `AgreedError` (usage) if a rank
/// has no such device, or if two ranks share one and `allowed` is `own`. Collective: all ranks must
/// call this. Only in builds with CUDA.
GpuUse claim_gpu(Communicator& communicator, const core::DeviceQueue& queue, GpuUse allowed);

}  // namespace lockstep::comm
