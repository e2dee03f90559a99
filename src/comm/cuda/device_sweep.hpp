// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "../swept_array.hpp"
#include "lockstep/core/buffer.hpp"

namespace lockstep::comm {

/// Benchmarks the all-reduce of arrays in device memory, like `sweep_all_reduce`. `memory` must
/// hold the largest array in the data type `options.communication_type`; `make_sum(elements)`
/// returns the all-reduce of its first `elements` elements. `empty`: the row of each size without
/// its results. Throws `Error` (usage) if `sweep_sizes` rejects `options`. Collective: all ranks
/// must call this. Only in builds with CUDA.
std::vector<SweepRow> sweep_device(Communicator& control, const core::Buffer& memory,
                                   const SweepOptions& options, const SweepRow& empty,
                                   const std::function<SweptSum(std::size_t elements)>& make_sum);

}  // namespace lockstep::comm
