// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <vector>

#include "lockstep/graph/graph.hpp"
#include "lockstep/optim/update.hpp"

namespace lockstep::backend {

/// Returns the parameters of a graph in ascending order of the flat buffers.
inline std::vector<optim::ParameterRange> parameter_ranges(const graph::Graph& graph) {
  std::vector<optim::ParameterRange> ranges;
  for (const graph::Parameter& parameter : graph.parameters())
    ranges.push_back(
        {parameter.offset, parameter.offset + parameter.elements, parameter.is_vector()});
  std::ranges::sort(ranges, {}, &optim::ParameterRange::begin);
  return ranges;
}

}  // namespace lockstep::backend
