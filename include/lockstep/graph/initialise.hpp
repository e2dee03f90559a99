#pragma once

#include <cstdint>
#include <span>

#include "lockstep/graph/graph.hpp"

namespace lockstep::graph {

/// Fills the flat parameter buffer (graph.parameter_elements() values; padding stays as it is) with
/// PyTorch's default distributions: kaiming-uniform with a = sqrt(5), i.e. uniform in
/// +-1/sqrt(fan_in), for weights and biases of convolutions and linear layers; 1 and 0 for batch
/// norm. A function of (graph, seed) alone.
void initialise_parameters(const Graph& graph, std::uint64_t seed, std::span<float> parameters);

/// Running means 0, running variances 1.
void initialise_statistics(const Graph& graph, std::span<float> statistics);

}  // namespace lockstep::graph
