// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "lockstep/record/run_records.hpp"

namespace lockstep::study {

/// All operations of a profile of the same kind, shape, phase and implementation: sums over them,
/// of one step on rank 0.
struct OperationGroup {
  std::string what, phase, implementation;
  std::string ceiling;  ///< of the longest operation
  double calls = 0, flops = 0, bytes = 0, seconds = 0, bound_seconds = 0;
};

/// Returns the groups of the operations, in descending order of `seconds`.
std::vector<OperationGroup> group_operations(const record::Profile& profile);

}  // namespace lockstep::study
