#pragma once

#include <cstdint>
#include <string>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::train {

/// Compares `hash`, the hash of the parameters of this rank's replica, with those of the other
/// ranks, which must be equal, and returns it as 16 hexadecimal digits. Throws `AgreedError`
/// (internal) with the ranks that differ from rank 0 otherwise. `step`: number of completed steps,
/// for the message. Collective: all ranks must call this.
std::string require_equal_replicas(comm::Communicator& communicator, std::uint64_t hash,
                                   std::int64_t step);

}  // namespace lockstep::train
