// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/backend/backend.hpp"

namespace lockstep::backend {

/// Throws `Error` (usage) if an operation would compute the variance of a single value in training.
void refuse_single_values(const graph::Graph& graph, const PlanOptions& options);

}  // namespace lockstep::backend
