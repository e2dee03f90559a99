// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "lockstep/comm/gradient_transport.hpp"

namespace lockstep::comm {

/// Creates the transport for gradients in GPU memory over `communicator`: they are staged through
/// host memory and summed there in float32. The host takes part in every step, so that steps cannot
/// be captured in a CUDA graph. The device of `queue` must be the current one. `communicator` must
/// outlive the transport. Only in builds with CUDA.
std::unique_ptr<GradientTransport> make_staged_transport(Communicator& communicator,
                                                         const core::DeviceQueue& queue);

}  // namespace lockstep::comm
