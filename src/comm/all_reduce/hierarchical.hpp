// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "registry.hpp"

// The algorithms of which the hierarchical algorithm consists.
namespace lockstep::comm {

/// Creates an all-reduce with the direct algorithm (pairwise exchange). The array is divided into
/// pieces, and each piece into one chunk per rank. Every rank sends chunk k to rank k, which adds
/// the contributions in rank order and sends the sum to all ranks. Several pieces are in flight at
/// the same time, so that a link carries contributions and sums in both directions. Throws `Error`
/// (usage) if `communication_type` is not supported.
std::unique_ptr<AllReduce> make_direct_all_reduce(const MessageRoute& route,
                                                  std::span<float> values,
                                                  core::DataType communication_type);

/// Returns the workspace in bytes of the direct algorithm on each of `ranks` ranks.
std::size_t direct_workspace_bytes(std::size_t elements, int ranks,
                                   core::DataType communication_type);

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
