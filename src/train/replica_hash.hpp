#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::train {

/// Returns a hash of the bits of `values` as 16 hexadecimal digits.
std::string hash_of(std::span<const float> values);

/// Returns the hash of the parameters of the replicas, which must be equal on all ranks. Throws
/// `AgreedError` (internal) with the ranks that differ from rank 0 otherwise. `step`: number of
/// completed steps, for the message. Collective: all ranks must call this.
std::string require_equal_replicas(comm::Communicator& communicator,
                                   std::span<const float> parameters, std::int64_t step);

}  // namespace lockstep::train
