// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "lockstep/comm/gradient_transport.hpp"

namespace lockstep::comm {

/// Creates the transport for gradients in GPU memory with NCCL. `control` transports everything
/// else and must outlive the transport. The device of `queue` must be the current one.
/// `shares_gpus`: ranks share GPUs; environment variables then tell NCCL that every rank is on a
/// separate host. NCCL is not used if there is only one rank. Only in builds with CUDA. Collective:
/// all ranks must call this.
std::unique_ptr<GradientTransport> make_nccl_transport(Communicator& control,
                                                       const core::DeviceQueue& queue,
                                                       bool shares_gpus);

/// Sets the environment variables that NCCL needs for several ranks on one GPU, unless they are
/// set. Only in builds with CUDA.
void prepare_shared_gpus(const Communicator& control);

}  // namespace lockstep::comm
