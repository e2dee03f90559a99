// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/train/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::train {

namespace {

std::vector<record::Tensor> parameter_views(const graph::Graph& graph, const std::string& group,
                                            std::span<float> values) {
  std::vector<record::Tensor> tensors;
  for (const auto& parameter : graph.parameters()) {
    tensors.push_back({group, parameter.name, parameter.shape,
                       values.subspan(parameter.offset, parameter.elements)});
  }
  return tensors;
}

/// Throws `Error` (input) if a value of the tensors is NaN or infinite.
void require_finite(const std::string& path, std::span<const record::Tensor> tensors) {
  const auto is_finite = [](float value) { return std::isfinite(value); };
  for (const record::Tensor& tensor : tensors) {
    if (std::ranges::all_of(tensor.values, is_finite)) continue;
    core::fail(core::ExitStatus::input,
               fmt::format("{}: {} has values that are not finite, because the training from which "
                           "it was saved diverged; use the weights of an earlier epoch",
                           path, tensor.name));
  }
}

}  // namespace

std::vector<record::Tensor> weight_tensors(const graph::Graph& graph, backend::ModelState& state) {
  auto tensors = parameter_views(graph, "state", state.parameters.as<float>());
  for (const auto& statistic : graph.statistics()) {
    tensors.push_back({"state",
                       statistic.name,
                       {static_cast<std::int64_t>(statistic.elements)},
                       state.statistics.as<float>().subspan(statistic.offset, statistic.elements)});
  }
  return tensors;
}

std::vector<record::Tensor> optimiser_tensors(const graph::Graph& graph,
                                              backend::ModelState& state) {
  auto tensors = parameter_views(graph, "momentum", state.momentum.as<float>());
  if (state.second_moment.bytes() == 0) return tensors;
  const auto more = parameter_views(graph, "second_moment", state.second_moment.as<float>());
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
}

void initialise(const graph::Graph& graph, std::uint64_t seed, backend::ModelState& state) {
  graph::initialise_parameters(graph, seed, state.parameters.as<float>());
  graph::initialise_statistics(graph, state.statistics.as<float>());
}

void load_weights(const std::string& path, const graph::Graph& graph, backend::ModelState& state,
                  comm::Communicator& communicator) {
  together(communicator, [&] {
    if (communicator.rank() != 0) return;
    const std::vector<record::Tensor> tensors = weight_tensors(graph, state);
    record::read_checkpoint(path, tensors, record::Verify::if_present);
    require_finite(path, tensors);
  });
  broadcast_state(communicator, state);
}

void broadcast_state(comm::Communicator& communicator, backend::ModelState& state) {
  for (const core::Buffer* buffer :
       {&state.parameters, &state.momentum, &state.second_moment, &state.statistics})
    communicator.broadcast(buffer->as<std::byte>());
}

}  // namespace lockstep::train
