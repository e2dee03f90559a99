#pragma once

#include <memory>

#include "../gpu_sharing.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/device_queue.hpp"
#include "nccl_calls.hpp"

namespace lockstep::comm {

/// Gradients of GPUs over NCCL; `control` stays the channel for everything else and outlives the
/// transport. The queue's device is the current one. Where GPUs are shared, NCCL is told by its
/// environment that every rank were on a host of its own, unless that is set already. One rank
/// alone works without NCCL. Collective.
std::unique_ptr<GradientTransport> make_nccl_transport(
    Communicator& control, const core::DeviceQueue& queue, GpuUse use,
    std::unique_ptr<NcclCalls> calls = std::make_unique<NcclCalls>());

/// Sets what NCCL needs for several ranks on one GPU. Throws `Error` (usage) where the environment
/// gives two ranks the same NCCL_HOSTID. Collective.
void prepare_shared_gpus(Communicator& control);

}  // namespace lockstep::comm
