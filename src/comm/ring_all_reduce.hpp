#pragma once

#include <memory>
#include <span>

#include "lockstep/comm/communicator.hpp"
#include "message_route.hpp"

namespace lockstep::comm {

/// Each piece of the array goes round the ranks twice, one chunk per rank at a time (Patarasuk and
/// Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009): every rank
/// adds what is its own and passes it on, then passes on the sums. Several pieces are on their way
/// at once. float32, each chunk summed in the order of the ring from the rank after its owner.
std::unique_ptr<AllReduce> make_ring_all_reduce(const MessageRoute& route, std::span<float> values);

}  // namespace lockstep::comm
