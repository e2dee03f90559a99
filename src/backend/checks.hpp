#pragma once

#include "lockstep/backend/backend.hpp"

namespace lockstep::backend {

/// Throws `Error` (usage) where training would ask a batch norm for the variance of a single value.
void refuse_single_values(const graph::Graph& graph, const PlanOptions& options);

}  // namespace lockstep::backend
