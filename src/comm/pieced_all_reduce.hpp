#pragma once

#include <memory>
#include <span>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/data_type.hpp"
#include "message_route.hpp"

namespace lockstep::comm {

/// The array is cut into pieces, each piece into one chunk per rank. Every rank sends its chunk k
/// to rank k, which adds up the contributions in rank order and sends the sum to all. Several
/// pieces are on their way at once, so that a link carries contributions and sums in both
/// directions.
std::unique_ptr<AllReduce> make_pieced_all_reduce(const MessageRoute& route,
                                                  std::span<float> values, core::DataType wire);

}  // namespace lockstep::comm
