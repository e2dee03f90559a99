#pragma once

#include "../gpu_sharing.hpp"
#include "lockstep/core/device_queue.hpp"

namespace lockstep::comm {

/// Makes the device of `queue` the current CUDA device and compares its PCI bus id with those of
/// the other ranks; returns whether any ranks share a GPU. Throws `AgreedError` (usage) if a rank
/// has no such device, or if two ranks share one and `allowed` is `own`. Collective: all ranks must
/// call this.
GpuUse claim_gpu(Communicator& communicator, const core::DeviceQueue& queue, GpuUse allowed);

}  // namespace lockstep::comm
