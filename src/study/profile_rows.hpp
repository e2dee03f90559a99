// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/timing/operation_clock.hpp"
#include "operation_work.hpp"

namespace lockstep::study {

/// Sums of the times of one operation over the profiled steps of one rank.
struct OperationSum {
  train::OperationKey key;
  std::int64_t calls = 0;
  double seconds = 0;
};

/// Adds up the times of each operation, in the order of the first execution.
class OperationSums {
 public:
  void add(std::span<const train::OperationTime> times);
  const std::vector<OperationSum>& all() const { return sums_; }

 private:
  std::map<train::OperationKey, std::size_t> places_;
  std::vector<OperationSum> sums_;
};

/// Returns the row of an operation of `steps` steps of this rank, without ceiling and with the time
/// of this rank only.
record::ProfiledOperation profile_row(const OperationSum& sum, std::int64_t steps,
                                      const graph::Graph& graph, const OperationWorks& works);

/// Sets the highest rates of the profile, and the ceiling and the lower bound of the time of each
/// operation from its time on rank 0. The ceiling is that of the resource which needs longer at its
/// highest rate: "compute" (FLOPs), "memory" (bytes), or "cache" if the operation took less time
/// than its bytes need in memory, so that only its FLOPs bound it; "none" without FLOPs and bytes
/// or without known rates. An operation that exceeds the measured rate of FLOPs replaces it,
/// because a peak rate is the highest rate that was observed.
void apply_ceilings(const backend::Ceilings& measured, record::Profile& profile);

}  // namespace lockstep::study
