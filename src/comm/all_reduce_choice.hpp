#pragma once

#include <span>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"

namespace lockstep::comm {

/// The way to sum `values`: `wanted` where that is a way and can be had, else the fastest by
/// timing each on a part of `values`, which stay as they are only where they are 0. Throws
/// `AgreedError` (usage) if `wanted` is not available. Collective; every rank gets the same answer.
AllReduceChoice choose_way(Communicator& communicator, std::span<float> values, core::DataType wire,
                           AllReduceWay wanted);

}  // namespace lockstep::comm
