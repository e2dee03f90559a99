// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace lockstep::graph {

class Graph;

/// Index of a node in `Graph::nodes()`. The inputs of a node have smaller indices.
using NodeId = std::int32_t;

}  // namespace lockstep::graph
