// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/sweep.hpp"
#include "lockstep/core/data_type.hpp"

// Common code of the all-reduce benchmarks for arrays in host memory and in device memory.

namespace lockstep::comm {

/// All-reduces one array; returns when the array holds the sum.
using SweptSum = std::function<void()>;

/// The array of a sweep. `fill` sets its elements to the known values of this rank and may be
/// collective; `count_wrong` returns how many elements differ from their sums in a data type.
struct SweptArray {
  std::function<void(std::size_t repeat)> fill;
  std::function<std::uint64_t(std::size_t repeat, core::DataType type)> count_wrong;
};

/// Times `sums`, alternating in each repeat, and adds the results to their `rows`. Collective: all
/// ranks must call this.
void sweep_sums(Communicator& communicator, const SweepOptions& options, const SweptArray& array,
                std::span<const SweptSum> sums, std::span<SweepRow> rows);

}  // namespace lockstep::comm
