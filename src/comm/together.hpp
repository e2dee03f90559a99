#pragma once

#include <functional>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// Runs `work` on every rank. Where it threw `Error` on any, throws the first such rank's status
/// and message on every rank, so that none goes on to wait for the others. Collective.
void together(Communicator& communicator, const std::function<void()>& work);

/// "rank 1 of 4 on node7"
std::string describe_rank(const Communicator& communicator);

/// This host's name.
std::string host_name();

}  // namespace lockstep::comm
