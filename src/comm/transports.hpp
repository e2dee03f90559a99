#pragma once

#include <memory>

#include "lockstep/comm/gradient_transport.hpp"

namespace lockstep::comm {

/// Creates the transport for gradients in host memory over `communicator`, which must outlive it.
/// Gradients are float32; `AllReduce` converts them for communication.
std::unique_ptr<GradientTransport> make_host_transport(Communicator& communicator);

/// Creates the transport for gradients in GPU memory over `communicator`: they are staged through
/// host memory and summed there in float32. The host takes part in every step, so that steps cannot
/// be captured in a CUDA graph. The device of `queue` must be the current one. `communicator` must
/// outlive the transport. Only in builds with CUDA.
std::unique_ptr<GradientTransport> make_staged_transport(Communicator& communicator,
                                                         const core::DeviceQueue& queue);

/// Throws `Error` (usage) if the communication data type is not the data type of the gradients in
/// device memory, which transports of devices require.
void check_device_type(const core::GradientArray& gradients, const ReducerOptions& options);

}  // namespace lockstep::comm
