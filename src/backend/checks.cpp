#include "checks.hpp"

#include <fmt/format.h>

#include <variant>

#include "lockstep/core/error.hpp"

namespace lockstep::backend {

void refuse_single_values(const graph::Graph& graph, const PlanOptions& options) {
  const int replicas = options.batch_norm_sum != nullptr ? options.batch_norm_sum->replicas() : 1;
  for (const graph::Node& node : graph.nodes()) {
    if (!std::holds_alternative<graph::BatchNorm>(node.operation)) continue;
    if (replicas * options.batch * node.output.pixels() > 1) continue;
    core::fail(core::ExitStatus::usage,
               fmt::format("batch norm {} would see one value per channel, whose variance is not "
                           "defined; use a larger batch or larger images",
                           node.name));
  }
}

}  // namespace lockstep::backend
