#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "lockstep/comm/communicator.hpp"
#include "shared_memory.hpp"

namespace lockstep::comm {

/// The same number of bytes at the same place in each rank's part.
struct SharedPlace {
  std::shared_ptr<const SharedMemory> memory;
  std::size_t offset = 0;
};

/// Bytes that an all-reduce needs in shared memory for itself, zeroed and on a cache line.
inline constexpr std::size_t shared_flag_bytes = 64;

/// Makes the sum, over the hosts, of the part that this rank has summed over its own host.
using MakeBetween = std::function<std::unique_ptr<AllReduce>(std::span<float> part)>;

/// Sums arrays of `elements` over the ranks of a host. The array is cut into one part per rank;
/// each rank sums its part over all of them and writes the sum to all. Nothing is copied otherwise,
/// and no message is sent. With `between`, sums over other hosts are made before they are written.
std::unique_ptr<AllReduce> make_shared_all_reduce(int rank, int ranks, SharedPlace array,
                                                  std::size_t elements, SharedPlace flags,
                                                  const MakeBetween& between = {});

}  // namespace lockstep::comm
