// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/graph/graph.hpp"
#include "lockstep/optim/update.hpp"

namespace lockstep::backend {

/// Returns the parameters of a graph in ascending order of the flat buffers.
std::vector<optim::ParameterRange> parameter_ranges(const graph::Graph& graph);

/// Returns the hash of the flat parameters: the sum of the hashes of all elements, modulo 2^64. A
/// change of any bits of a single element always changes the hash; other changes leave it equal
/// with a probability of about 2^-64. Not a cryptographic hash.
std::uint64_t parameter_hash(std::span<const float> parameters);

}  // namespace lockstep::backend
