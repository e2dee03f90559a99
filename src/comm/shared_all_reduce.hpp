#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "lockstep/comm/communicator.hpp"
#include "shared_memory.hpp"

namespace lockstep::comm {

/// Position in shared memory: `offset` in bytes, the same in the part of each rank.
struct SharedPlace {
  std::shared_ptr<const SharedMemory> memory;
  std::size_t offset = 0;
};

/// Bytes of shared memory that an all-reduce needs for its flags. They must be zeroed and start on
/// a cache line.
inline constexpr std::size_t shared_flag_bytes = 64;

/// Creates the all-reduce over the hosts of `part`, which this rank has summed over its own host.
using MakeBetween = std::function<std::unique_ptr<AllReduce>(std::span<float> part)>;

/// Creates an all-reduce of float32 arrays of `elements` values in the shared memory of a host.
/// `rank` and `ranks`: local rank and number of ranks of the host. Each array is divided into one
/// part per rank; each rank sums its part over the arrays of all ranks and writes the sum to all of
/// them. There are no other copies and no messages. If `between` is given, the part is summed over
/// the hosts with this all-reduce before it is written to the other ranks (hierarchical algorithm).
/// All ranks of the host must create one.
std::unique_ptr<AllReduce> make_shared_all_reduce(int rank, int ranks, SharedPlace array,
                                                  std::size_t elements, SharedPlace flags,
                                                  const MakeBetween& between = {});

}  // namespace lockstep::comm
