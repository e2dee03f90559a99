#pragma once

#include <string>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// Returns a description of this rank: "rank 1 of 4 on node7".
std::string describe_rank(const Communicator& communicator);

/// Returns the name of this host; "unknown" if the system does not provide it.
std::string host_name();

}  // namespace lockstep::comm
