#pragma once

#include <string>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// "rank 1 of 4 on node7"
std::string describe_rank(const Communicator& communicator);

/// This host's name.
std::string host_name();

}  // namespace lockstep::comm
