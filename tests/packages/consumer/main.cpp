// SPDX-License-Identifier: BSD-3-Clause
// Computes the loss of ResNet-18 on one batch with the installed libraries. The last layer is zero,
// so all classes have the same probability and the mean loss is ln 10.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/graph/models.hpp"

int main() {
  using namespace lockstep;
  const char* const model = "resnet18-cifar";
  const graph::Graph graph = graph::make_model(model, {});
  const auto backend = backend::make_backend(backend::DeviceKind::cpu, 1);
  backend::ModelState state = backend->make_state(graph);
  const std::span<float> parameters = state.parameters.as<float>();
  graph::initialise_parameters(graph, 1, parameters);
  graph::initialise_statistics(graph, state.statistics.as<float>());
  for (const graph::Parameter& parameter : graph.parameters()) {
    if (parameter.name.starts_with("linear.")) {
      std::ranges::fill(parameters.subspan(parameter.offset, parameter.elements), 0.0f);
    }
  }

  const auto plan = backend->compile(graph, state, {.batch = 2, .mode = backend::Mode::inference});
  const std::vector<std::uint8_t> images(2 * 3 * 32 * 32, 100);
  const std::vector<std::int32_t> labels{3, 7};
  plan->upload(images, labels);
  plan->forward();
  const backend::BatchResult result = plan->result();
  std::printf("%s %zu %.4f\n", model, graph.parameter_count(),
              result.loss_sum / static_cast<double>(result.images));
}
