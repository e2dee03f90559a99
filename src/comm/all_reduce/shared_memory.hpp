#pragma once

#include <functional>
#include <memory>
#include <span>

#include "registry.hpp"

namespace lockstep::comm {

/// Creates the all-reduce over the hosts of `part`, which this rank has summed over its own host.
using MakeBetween = std::function<std::unique_ptr<AllReduce>(std::span<float> part)>;

/// Creates an all-reduce of float32 arrays in the shared memory of a host. Each array is divided
/// into one part per rank; each rank sums its part over the arrays of all ranks and writes the sum
/// to all of them. There are no other copies and no messages. If `between` is given, the part is
/// summed over the hosts with this all-reduce before it is written to the other ranks (hierarchical
/// algorithm). `values` must be in shared memory. Collective: all ranks must call this.
std::unique_ptr<AllReduce> make_shared_memory_all_reduce(AllReduceResources& resources,
                                                         std::span<float> values,
                                                         const MakeBetween& between = {});

}  // namespace lockstep::comm
