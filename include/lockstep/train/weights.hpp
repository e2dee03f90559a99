// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/checkpoint.hpp"

namespace lockstep::train {

/// Returns views of the parameters in `state`, then of the running statistics, with their names.
std::vector<record::Tensor> weight_tensors(const graph::Graph& graph, backend::ModelState& state);

/// Returns views of what the optimiser keeps of each parameter in `state` (momentum, second
/// moment), with the names of the parameters.
std::vector<record::Tensor> optimiser_tensors(const graph::Graph& graph,
                                              backend::ModelState& state);

/// Sets the parameters and running statistics to PyTorch's default initial values. `seed`: of the
/// random numbers.
void initialise(const graph::Graph& graph, std::uint64_t seed, backend::ModelState& state);

/// Loads weights and running statistics from the file `path` on rank 0 and sends them to all ranks.
/// Throws `AgreedError` (input) if the file cannot be read. Collective: all ranks must call this.
void load_weights(const std::string& path, const graph::Graph& graph, backend::ModelState& state,
                  comm::Communicator& communicator);

/// Copies the state of rank 0, without the gradients, to all ranks. Collective: all ranks must call
/// this.
void broadcast_state(comm::Communicator& communicator, backend::ModelState& state);

}  // namespace lockstep::train
