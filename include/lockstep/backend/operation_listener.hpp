// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

#include "lockstep/graph/graph.hpp"

namespace lockstep::backend {

/// Phase of the backward pass in which the output of an operation is computed again
/// (`Recomputation`).
inline constexpr std::string_view recompute_phase = "recompute";

/// Callback invoked after each operation of a plan; used for profiling.
class OperationListener {
 public:
  virtual ~OperationListener() = default;
  /// Called when an operation has been executed on the host or queued on a device. `node`: the
  /// first node of the operation. `phase`: as in `OperationChoice`, or "backward" if the backward
  /// pass of the operation is not split into phases.
  virtual void ended(graph::NodeId node, std::string_view phase) = 0;
  /// Returns whether the operations that are queued now are observed. They then run one after the
  /// other: a GPU uses no second stream (`WeightStream`).
  virtual bool is_observing() const { return true; }
};

}  // namespace lockstep::backend
