#pragma once

#include "lockstep/comm/gradient_transport.hpp"

namespace lockstep::comm {

/// Creates the transport for gradients in host memory, which `communicator` sums. `communicator`
/// must outlive the transport.
std::unique_ptr<GradientTransport> make_host_transport(Communicator& communicator);

}  // namespace lockstep::comm
