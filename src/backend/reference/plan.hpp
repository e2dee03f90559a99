// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <vector>

#include "lockstep/backend/backend.hpp"

namespace lockstep::backend::reference {

/// Throws `Error` (usage) if a batch norm would compute the variance of a single value in training.
std::unique_ptr<Plan> make_plan(const graph::Graph& graph, ModelState& state,
                                const PlanOptions& options);

std::vector<OperationChoice> choices_of(const graph::Graph& graph, Mode mode);

/// Returns the memory that a plan would allocate, from shapes alone.
MemoryUse memory_use(const graph::Graph& graph, const PlanOptions& options);

}  // namespace lockstep::backend::reference
