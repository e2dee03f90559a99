// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

namespace lockstep::train {

/// Size of the tables of one epoch.
struct StepLogSize {
  std::size_t steps = 0;
  std::size_t buckets = 0;
  std::size_t ranks = 1;
};

/// Returns the bytes of a `StepLog` of this size on each rank.
std::size_t step_log_bytes(const StepLogSize& size);

/// Returns the largest number of additional bytes that rank 0 needs to gather and write an epoch:
/// the tables of all ranks, and copies of the largest table.
std::size_t step_gather_bytes(const StepLogSize& size);

}  // namespace lockstep::train
