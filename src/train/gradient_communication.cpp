// SPDX-License-Identifier: BSD-3-Clause
#include "gradient_communication.hpp"

#include "lockstep/train/agreement.hpp"
#include "lockstep/train/plan_options.hpp"

namespace lockstep::train {

std::unique_ptr<comm::GradientTransport> make_transport(const TrainingContext& context) {
  std::unique_ptr<comm::GradientTransport> transport;
  together_over_groups(context.world, [&] {
    transport = comm::make_gradient_transport(
        context.data_parallel, context.backend.device().queue(), context.config.transport);
  });
  return transport;
}

comm::ReducerOptions reducer_options(const TrainingContext& context) {
  const Config& config = context.config;
  // For gradients in host memory, `automatic` selects the algorithm by timing, but the algorithm
  // determines the order of summation.
  const bool is_free =
      config.reducer.algorithm == comm::AllReduceAlgorithm::automatic &&
      comm::algorithm_of({.kind = config.reducer.kind}) == config.reducer.algorithm;
  const bool is_fixed = config.device.deterministic && is_free &&
                        (context.backend.device().queue().is_host() ||
                         config.transport.kind == comm::TransportKind::staged);
  comm::ReducerOptions options = reducer_options(config);
  if (is_fixed) options.algorithm = comm::AllReduceAlgorithm::direct;
  return options;
}

}  // namespace lockstep::train
