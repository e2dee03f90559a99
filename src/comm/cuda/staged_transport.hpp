#pragma once

#include <memory>

#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/device_queue.hpp"

namespace lockstep::comm {

/// Gradients of GPUs over `communicator` by way of the hosts' memory, summed there in float32. The
/// host works between a step's parts: it cannot be recorded. The queue's device is the current one.
std::unique_ptr<GradientTransport> make_staged_transport(Communicator& communicator,
                                                         const core::DeviceQueue& queue);

}  // namespace lockstep::comm
