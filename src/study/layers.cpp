// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/layers.hpp"

#include <algorithm>
#include <limits>

#include "layer_memory.hpp"
#include "lockstep/core/statistics.hpp"
#include "lockstep/train/agreement.hpp"
#include "profile_rows.hpp"
#include "timed_plan.hpp"

namespace lockstep::study {

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr double shortest_energy_seconds = 1;

/// Returns the node of the layer in the network of `graph::stack_layers`.
graph::NodeId find_layer(const graph::Graph& graph) {
  const auto node = std::ranges::find(graph.nodes(), "layer.0", &graph::Node::name);
  return static_cast<graph::NodeId>(node - graph.nodes().begin());
}

/// Runs the measured steps and returns the mean power of the device; NaN if it is not readable.
double run_steps(TimedPlan& timed, const backend::Backend& backend) {
  for (int step = 0; step < layer_warm_up; ++step) timed.step();
  timed.forget();
  const double before = backend.device().read_sensors().energy_joules;
  const bool has_energy = before == before;
  const double begin = core::host_seconds();
  for (int step = 0; step < layer_repeats ||
                     (has_energy && core::host_seconds() - begin < shortest_energy_seconds);
       ++step)
    timed.step();
  const double joules = backend.device().read_sensors().energy_joules - before;
  return joules / (core::host_seconds() - begin);
}

/// Adds times and work of the layer's phases to the row.
void add_phases(const TimedPlan& timed, const graph::Graph& graph, graph::NodeId id,
                core::Precision precision, record::LayerRow& row) {
  for (const auto& [key, by_step] : timed.seconds()) {
    const auto& [node, phase] = key;
    if (node != id) continue;
    const bool is_forward = phase == "forward";
    const Work work = work_of(graph, id, phase, row.batch, precision);
    (is_forward ? row.forward_flops : row.backward_flops) += work.flops;
    (is_forward ? row.forward_bytes : row.backward_bytes) += work.bytes;
    auto& seconds = is_forward ? row.forward_seconds : row.backward_seconds;
    seconds.resize(layer_repeats);
    for (int i = 0; i < layer_repeats; ++i) {
      const auto step = static_cast<std::size_t>(i);
      seconds[step] += by_step[step];
    }
  }
}

}  // namespace

record::LayerRow measure_layer(const backend::PlanOptions& options, const graph::Layer& layer,
                               const backend::Backend& backend, const backend::Ceilings& ceilings,
                               std::uint64_t limit_bytes) {
  const backend::PlanOptions alone = without_reduction(options);
  const graph::Graph graph = graph::stack_layers(layer, 1);
  record::LayerRow row{.layer = layer.text,
                       .status = "out_of_memory",
                       .batch = layer.batch,
                       .forward_seconds = {},
                       .backward_seconds = {},
                       .estimated_bytes = estimate_bytes(alone, graph, backend),
                       .flops_per_second = ceilings.flops_per_second,
                       .bytes_per_second = ceilings.bytes_per_second,
                       .power_watts = unknown,
                       .energy_joules = unknown};
  if (row.estimated_bytes + base_bytes(backend) > limit_bytes) return row;
  const auto failure = train::outcome_of([&] {
    MemoryIncrease memory(backend);
    TimedPlan timed(alone, graph, backend, StepPart::forward_backward);
    row.power_watts = run_steps(timed, backend);
    row.peak_bytes = memory.bytes();
    add_phases(timed, graph, find_layer(graph), options.precision, row);
  });
  if (failure && failure->status() != core::ExitStatus::out_of_memory) throw *failure;
  if (failure) return row;
  row.status = "complete";
  row.energy_joules =
      row.power_watts * (core::median(row.forward_seconds) + core::median(row.backward_seconds));
  return row;
}

}  // namespace lockstep::study
