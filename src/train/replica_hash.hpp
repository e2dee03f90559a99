// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::train {

/// Compares `hash`, the hash of the parameters of this rank, with those of the other replicas,
/// which must be equal. Returns the hash of a replica as 16 hexadecimal digits: the sum of those of
/// its stages. `stages`: number of pipeline stages; rank = replica * stages + stage. Throws
/// `AgreedError` (internal) with the ranks that differ from the majority of the replicas; without
/// majority, with all ranks and hashes. `step`: number of
/// completed steps, for the message. Collective over `world`: all ranks must call this.
std::string require_equal_replicas(comm::Communicator& world, int stages, std::uint64_t hash,
                                   std::int64_t step);

}  // namespace lockstep::train
