#pragma once

#include <memory>
#include <span>

#include "lockstep/comm/communicator.hpp"
#include "message_route.hpp"

namespace lockstep::comm {

/// Creates an all-reduce with the ring algorithm (Patarasuk and Yuan, "Bandwidth optimal all-reduce
/// algorithms for clusters of workstations", 2009) in float32. The array is divided into pieces,
/// and each piece into one chunk per rank. The chunks pass round the ring of ranks twice: first
/// every rank adds its values to the chunks that it receives and forwards them (reduce-scatter),
/// then it forwards the sums (all-gather). Several pieces are in flight at the same time. Chunk k
/// is summed in the order of the ring, beginning with rank k.
std::unique_ptr<AllReduce> make_ring_all_reduce(const MessageRoute& route, std::span<float> values);

}  // namespace lockstep::comm
