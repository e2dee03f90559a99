#pragma once

#include "lockstep/comm/gradient_transport.hpp"

namespace lockstep::comm {

/// Gradients in the hosts' memory: `communicator` itself sums them. It must outlive the transport.
std::unique_ptr<GradientTransport> make_host_transport(Communicator& communicator);

}  // namespace lockstep::comm
