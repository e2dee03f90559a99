#pragma once

#include "../gpu_sharing.hpp"
#include "lockstep/core/device_queue.hpp"

namespace lockstep::comm {

/// Makes the queue's device the current one and compares with the other ranks which GPU that is.
/// Throws `Error` (usage), on all ranks, where a rank has no such device, or where two ranks share
/// one and `allowed` is `own`. Collective.
GpuUse claim_gpu(Communicator& communicator, const core::DeviceQueue& queue, GpuUse allowed);

}  // namespace lockstep::comm
