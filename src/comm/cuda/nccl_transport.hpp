// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "../gpu_sharing.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/device_queue.hpp"

namespace lockstep::comm {

/// Creates the transport for gradients in GPU memory with NCCL. `control` transports everything
/// else and must outlive the transport. The device of `queue` must be the current one. If ranks
/// share GPUs, environment variables tell NCCL that every rank is on a separate host; variables
/// that are already set are not changed. NCCL is not used if there is only one rank. Collective:
/// all ranks must call this.
std::unique_ptr<GradientTransport> make_nccl_transport(Communicator& control,
                                                       const core::DeviceQueue& queue, GpuUse use);

/// Sets the environment variables that NCCL needs for several ranks on one GPU. Throws
/// `AgreedError` (usage) if two ranks have the same NCCL_HOSTID. Collective: all ranks must call
/// this.
void prepare_shared_gpus(Communicator& control);

}  // namespace lockstep::comm
