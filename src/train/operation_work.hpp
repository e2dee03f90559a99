#pragma once

#include <map>
#include <string>
#include <string_view>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/graph/graph.hpp"
#include "operation_clock.hpp"

namespace lockstep::train {

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

  /// `graph` must outlive this object. `batch`: images per step of this rank.
  OperationWorks(const graph::Graph& graph, const backend::Plan& plan, core::Precision precision,
                 std::int64_t batch);

  /// Returns the work of an operation; all zero for work without arithmetic of its own.
  OperationWork of(const OperationKey& key) const;

 private:
  const graph::Graph& graph_;
  std::map<std::pair<graph::NodeId, std::string>, backend::OperationChoice> choices_;
  double element_bytes_, batch_;
};

}  // namespace lockstep::train
