#pragma once

#include <memory>
#include <span>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/data_type.hpp"
#include "message_route.hpp"

namespace lockstep::comm {

/// Creates an all-reduce with the direct algorithm (pairwise exchange). The array is divided into
/// pieces, and each piece into one chunk per rank. Every rank sends chunk k to rank k, which adds
/// the contributions in rank order and sends the sum to all ranks. Several pieces are in flight at
/// the same time, so that a link carries contributions and sums in both directions. `wire`:
/// communication data type; throws `Error` (usage) if it is not supported.
std::unique_ptr<AllReduce> make_pieced_all_reduce(const MessageRoute& route,
                                                  std::span<float> values, core::DataType wire);

}  // namespace lockstep::comm
