// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/study/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "lockstep/core/error.hpp"
#include "profile_rows.hpp"
#include "timed_plan.hpp"

namespace lockstep::study {

namespace {

constexpr int steps = 3;

/// Executes a step that is not measured, then `steps` steps. Returns their mean seconds.
double run_steps(TimedPlan& timed) {
  timed.step();
  timed.forget();
  double seconds = 0;
  for (int step = 0; step < steps; ++step) seconds += timed.step() / steps;
  return seconds;
}

double mean(const std::vector<double>& by_step) {
  return std::reduce(by_step.begin(), by_step.end()) / steps;
}

}  // namespace

std::vector<double> measure_nodes(const backend::PlanOptions& options, const graph::Graph& network,
                                  const backend::Backend& backend, std::uint64_t limit_bytes) {
  const auto bytes = backend.memory(network, options).total();
  if (bytes > limit_bytes) {
    core::fail(
        core::ExitStatus::usage,
        fmt::format("--stage-cuts auto times the whole network on one rank, which needs {:.1f} "
                    "GB of the {:.1f} GB that are free; use --stage-cuts flops, or name the "
                    "layers",
                    1e-9 * static_cast<double>(bytes), 1e-9 * static_cast<double>(limit_bytes)));
  }
  TimedPlan timed(options, network, backend, StepPart::whole);
  run_steps(timed);
  std::vector<double> seconds(network.nodes().size());
  for (const auto& [key, by_step] : timed.seconds())
    if (key.first != train::no_node) seconds[static_cast<std::size_t>(key.first)] += mean(by_step);
  return seconds;
}

std::int64_t timed_batch(std::int64_t batch_per_rank, int threads) {
  constexpr std::int64_t images_per_thread = 32;
  return std::min((batch_per_rank + 1) / 2, images_per_thread * threads);
}

double relative_step_time(backend::PlanOptions options, const graph::Graph& graph,
                          const backend::Backend& backend) {
  constexpr int timed_steps = 2;
  const core::Precision own_precision = options.precision;
  const auto shortest = [&](core::Precision precision) {
    options.precision = precision;
    TimedPlan timed(options, graph, backend, StepPart::whole);
    timed.step();
    double seconds = std::numeric_limits<double>::infinity();
    for (int step = 0; step < timed_steps; ++step) seconds = std::min(seconds, timed.step());
    return seconds;
  };
  return shortest(own_precision) / shortest(core::Precision::fp32);
}

record::Profile measure_roofline(const backend::PlanOptions& options, const graph::Graph& graph,
                                 const backend::Backend& backend) {
  const backend::Ceilings ceilings = backend.ceilings(options.precision);
  if (ceilings.flops_per_second == 0) {
    core::fail(core::ExitStatus::usage,
               fmt::format("--measure compares with a device's ceilings, which '{}' does not "
                           "measure; use --device cpu",
                           core::name(backend.device().kind())));
  }
  TimedPlan timed(options, graph, backend, StepPart::whole);
  record::Profile profile;
  profile.steps = steps;
  profile.step_seconds = run_steps(timed);
  const ProfileRows rows(graph, timed.plan(), options);
  for (const auto& [key, by_step] : timed.seconds()) {
    if (key.second == upload_phase) continue;
    const OperationSum sum{.key = key, .calls = steps, .seconds = steps * mean(by_step)};
    profile.operations.push_back(rows.row(sum, steps));
  }
  apply_ceilings(ceilings, profile);
  return profile;
}

}  // namespace lockstep::study
