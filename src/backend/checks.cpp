// SPDX-License-Identifier: BSD-3-Clause
#include "checks.hpp"

#include <fmt/format.h>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::backend {

void refuse_single_values(const graph::Graph& graph, const PlanOptions& options) {
  const int replicas = options.batch_norm_sum != nullptr ? options.batch_norm_sum->replicas() : 1;
  for (graph::NodeId id = 0; id < static_cast<graph::NodeId>(graph.nodes().size()); ++id) {
    const graph::Node& node = graph.node(id);
    if (node.inputs.empty()) continue;
    const core::ImageShape input = graph.node(node.inputs[0]).output;
    const auto values = node.operation.values_per_variance({&input, 1}, replicas * options.batch);
    if (!values || *values > 1) continue;
    core::fail(core::ExitStatus::usage,
               fmt::format("{} ({}) would compute the variance of a single value, which is not "
                           "defined; use a larger batch or larger images",
                           node.name, graph.describe(id)));
  }
}

}  // namespace lockstep::backend
