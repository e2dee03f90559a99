// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/graph/node_id.hpp"

namespace lockstep::graph {

/// Fills the flat parameter buffer (graph.parameter_elements() values) with PyTorch's default
/// distributions: kaiming-uniform with a = sqrt(5), i.e. uniform in +-1/sqrt(fan_in), for weights
/// and biases of convolutions and linear layers; 1 for the weights and 0 for the biases of batch
/// norm. Padding is not changed. The result depends only on (graph, seed). Throws `Error`
/// (internal) if the buffer is too small.
void initialise_parameters(const Graph& graph, std::uint64_t seed, std::span<float> parameters);

/// Sets the running means to 0 and the running variances to 1 in the flat statistics buffer
/// (graph.statistic_elements() values). Throws `Error` (internal) if the buffer is too small.
void initialise_statistics(const Graph& graph, std::span<float> statistics);

}  // namespace lockstep::graph
