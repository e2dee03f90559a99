#pragma once

#include <span>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"

namespace lockstep::comm {

/// Selects the algorithm for the all-reduce of `values`: `wanted` if it is a specific algorithm,
/// otherwise the fastest available one. To find the fastest, it times each algorithm on the first
/// elements of `values`, which keep their values only if they are 0. Returns `automatic` if there
/// is only one rank. Throws `AgreedError` (usage) if `wanted` is not available or `wire` is not
/// supported. Collective: all ranks must call this, and all get the same result.
AllReduceChoice choose_way(Communicator& communicator, std::span<float> values, core::DataType wire,
                           AllReduceWay wanted);

}  // namespace lockstep::comm
