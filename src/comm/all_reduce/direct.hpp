// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "pipeline.hpp"

namespace lockstep::comm {

/// Creates an all-reduce with the direct algorithm (pairwise exchange). The array is divided into
/// pieces, and each piece into one chunk per rank. Every rank sends chunk k to rank k, which adds
/// the contributions in rank order and sends the sum to all ranks. Several pieces are in flight at
/// the same time, so that a link carries contributions and sums in both directions.
std::unique_ptr<AllReduce> make_direct_all_reduce(const MessageRoute& route,
                                                  std::span<float> values,
                                                  core::DataType communication_type);

/// Returns the workspace in bytes of the direct algorithm on each of `ranks` ranks.
std::size_t direct_workspace_bytes(std::size_t elements, std::size_t ranks,
                                   core::DataType communication_type);

}  // namespace lockstep::comm
