// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/config.hpp"
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

/// Arithmetic and memory traffic of one operation in one phase of a training step.
struct OperationWork {
  std::string what{};            ///< kind and shapes: "convolution 3x3, 64x32x32 -> 64x32x32"
  std::string implementation{};  ///< empty if there is no choice
  double flops = 0;              ///< of the selected algorithm
  double bytes = 0;  ///< memory traffic: each feature map and weight once per pass over it
};

/// The work of the operations of a training plan.
class OperationWorks {
 public:
  /// Name of the phase of the update, whose node is `no_node`.
  static constexpr std::string_view update = "update";

  /// `graph` must outlive this object.
  OperationWorks(const graph::Graph& graph, const backend::Plan& plan, const train::Config& config);

  /// Returns the work of an operation; all zero for work without arithmetic of its own.
  OperationWork of(const train::OperationKey& key) const;

 private:
  OperationWork work_of_update() const;

  const graph::Graph& graph_;
  std::map<std::pair<graph::NodeId, std::string>, backend::OperationChoice> choices_;
  core::Precision precision_;
  std::int64_t batch_;  ///< images per step of this rank
  optim::Kind optimiser_;
};

}  // namespace lockstep::study
