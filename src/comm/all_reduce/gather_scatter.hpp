// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <span>

#include "pipeline.hpp"

namespace lockstep::comm {

/// Stages that an exchange with rank 0 consists of. `gather`: rank 0 receives the arrays of all
/// ranks and sums them. `scatter`: rank 0 sends its array to all ranks.
enum class RootStages { gather_and_scatter, gather, scatter };

/// Creates an exchange of `values` between rank 0 and all other ranks, in float32. The array is
/// divided into pieces; several of them are in flight at the same time, so that rank 0 receives
/// contributions to one piece while it sends another one.
std::unique_ptr<AllReduce> make_root_all_reduce(const MessageRoute& route, std::span<float> values,
                                                RootStages stages);

}  // namespace lockstep::comm
