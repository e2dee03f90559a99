// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "lockstep/comm/sweep.hpp"

namespace lockstep::comm {

class AllReduceResources;

/// Benchmarks all available algorithms on arrays in host memory. The values are integers with known
/// sums, and every element is checked after every repeat. The algorithms alternate in each repeat,
/// so that a change in the load of the machine affects all of them. Throws `AgreedError` (usage) if
/// `sweep_sizes` rejects `options`. Collective: all ranks must call this, and all get the same
/// rows.
std::vector<SweepRow> sweep_all_reduce(AllReduceResources& resources, const SweepOptions& options);

}  // namespace lockstep::comm
