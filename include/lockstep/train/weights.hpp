#pragma once

#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/checkpoint.hpp"

namespace lockstep::train {

/// Views of the network's parameters and running statistics under their names.
std::vector<record::Tensor> weight_tensors(const graph::Graph& graph, backend::ModelState& state);

/// Views of the momentum of each parameter.
std::vector<record::Tensor> momentum_tensors(const graph::Graph& graph, backend::ModelState& state);

/// PyTorch's default initial values.
void initialise(const graph::Graph& graph, std::uint64_t seed, backend::ModelState& state);

/// Weights and running statistics from a file that rank 0 reads. Throws `AgreedError` (input).
/// Collective.
void load_weights(const std::string& path, const graph::Graph& graph, backend::ModelState& state,
                  comm::Communicator& communicator);

/// Sends rank 0's parameters, momentum and running statistics to all ranks. Collective.
void broadcast_state(comm::Communicator& communicator, backend::ModelState& state);

}  // namespace lockstep::train
