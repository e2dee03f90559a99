// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "lockstep/comm/gradient_transport.hpp"

namespace lockstep::comm {

/// Creates the transport for gradients in host memory over `communicator`, which must outlive it.
/// Gradients are float32; `AllReduce` converts them for communication.
std::unique_ptr<GradientTransport> make_host_transport(Communicator& communicator);

}  // namespace lockstep::comm
