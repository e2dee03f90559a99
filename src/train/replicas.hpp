#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::train {

/// 16 hexadecimal digits over the values' bits.
std::string hash_of(std::span<const float> values);

/// The hash of the replicas' parameters, which must be equal: throws `AgreedError` (internal)
/// naming the ranks that differ from rank 0. Collective.
std::string require_equal_replicas(comm::Communicator& communicator,
                                   std::span<const float> parameters, std::int64_t step);

}  // namespace lockstep::train
