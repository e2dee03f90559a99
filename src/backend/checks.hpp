#pragma once

#include "lockstep/backend/backend.hpp"

namespace lockstep::backend {

/// Returns the graph. Throws `Error` (usage) if it is a stage (see graph::Graph::cut).
const graph::Graph& require_whole(const graph::Graph& graph);

/// Throws `Error` (usage) if a batch norm would compute the variance of a single value in training.
void refuse_single_values(const graph::Graph& graph, const PlanOptions& options);

}  // namespace lockstep::backend
