// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/run_records.hpp"
#include "lockstep/train/timing/operation_clock.hpp"

namespace lockstep::study {

/// Floating-point operations and memory traffic in bytes.
struct Work {
  double flops = 0, bytes = 0;
};

/// Returns the work of one operation in a phase (`OperationChoice::phase` or "backward") for a
/// batch of images: each feature map and each parameter counts once per pass over it.
Work work_of(const graph::Graph& graph, graph::NodeId id, std::string_view phase,
             std::int64_t batch, core::Precision precision);

/// Sums of the times of one operation over the profiled steps of one rank.
struct OperationSum {
  train::OperationKey key;
  std::int64_t calls = 0;
  double seconds = 0;
};

/// Adds the times to the sums, which are in the order of the first execution.
void add(std::span<const train::OperationTime> times, std::vector<OperationSum>& sums);

/// The rows of the operations of a training plan.
class ProfileRows {
 public:
  /// Name of the phase of the update, whose node is `no_node`.
  static constexpr std::string_view update = "update";

  /// `options`: those of `plan`. `graph` must outlive this object.
  ProfileRows(const graph::Graph& graph, const backend::Plan& plan,
              const backend::PlanOptions& options);

  /// Returns the row of an operation of `steps` steps of this rank, without ceiling and with the
  /// time of this rank only. The FLOPs are those of the selected algorithm; FLOPs and bytes are 0
  /// for work without arithmetic of its own.
  record::ProfiledOperation row(const OperationSum& sum, std::int64_t steps) const;

 private:
  void set_update(record::ProfiledOperation& row) const;

  const graph::Graph& graph_;
  std::map<std::pair<graph::NodeId, std::string>, backend::OperationChoice> choices_;
  core::Precision precision_;
  std::int64_t batch_;  ///< images per step of this rank
  optim::Kind optimiser_;
};

/// Sets the highest rates of the profile, and the ceiling and the lower bound of the time of each
/// operation from its time on rank 0. The ceiling is that of the resource which needs longer at its
/// highest rate: "compute" (FLOPs), "memory" (bytes), or "cache" if the operation took less time
/// than its bytes need in memory, so that only its FLOPs bound it; "none" without FLOPs and bytes
/// or without known rates. An operation that exceeds the measured rate of FLOPs replaces it,
/// because a peak rate is the highest rate that was observed.
void apply_ceilings(const backend::Ceilings& measured, record::Profile& profile);

}  // namespace lockstep::study
