// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/node_id.hpp"

namespace lockstep::train {

/// Throws `Error` (usage) if the network takes images of another shape than those of the dataset,
/// or has fewer classes.
void require_match(const graph::Graph& graph, const data::DatasetInfo& dataset);

}  // namespace lockstep::train
