// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/graph/initialise.hpp"

#include <algorithm>
#include <cmath>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/graph/graph.hpp"

namespace lockstep::graph {

void initialise_parameters(const Graph& graph, std::uint64_t seed, std::span<float> parameters) {
  core::check(parameters.size() >= graph.parameter_elements(),
              "the parameter buffer fits the graph");
  for (const Parameter& parameter : graph.parameters()) {
    const auto values = parameters.subspan(parameter.offset, parameter.elements);
    switch (parameter.initial) {
      case Initial::ones: std::ranges::fill(values, 1.0f); break;
      case Initial::zeros: std::ranges::fill(values, 0.0f); break;
      case Initial::kaiming_uniform:
      case Initial::bias_uniform: {
        const float bound = 1.0f / std::sqrt(static_cast<float>(parameter.fan_in));
        core::Random random(seed, core::RandomStream::weights, parameter.index);
        std::ranges::generate(values, [&] { return bound * (2 * random.uniform() - 1); });
      }
    }
  }
}

void initialise_statistics(const Graph& graph, std::span<float> statistics) {
  core::check(statistics.size() >= graph.statistic_elements(),
              "the statistics buffer fits the graph");
  for (const Statistic& statistic : graph.statistics()) {
    std::ranges::fill(statistics.subspan(statistic.offset, statistic.elements),
                      statistic.initial == Initial::ones ? 1.0f : 0.0f);
  }
}

}  // namespace lockstep::graph
