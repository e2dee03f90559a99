// SPDX-License-Identifier: BSD-3-Clause
#include "describe_run.hpp"

#include <span>
#include <vector>

#include "lockstep/comm/messages.hpp"

namespace lockstep::train {

namespace {

/// Returns the descriptions of the stages of the first replica on rank 0; nothing without pipeline.
/// Collective.
std::vector<StageDescription> describe_stages(const TrainingContext& context,
                                              const backend::Plan& plan) {
  std::vector<StageDescription> stages;
  if (context.pipeline == nullptr) return stages;
  const std::uint64_t bytes = plan.memory().total();
  const std::vector<std::uint64_t> all_bytes = comm::gather(context.world, bytes);
  if (context.world.rank() != 0) return stages;
  for (const graph::Graph& graph : context.pipeline->graphs) {
    const std::size_t first = stages.empty() ? 0 : 1;  // after the boundary input
    stages.push_back({.first_layer = graph.nodes()[first].name,
                      .last_layer = graph.nodes().back().name,
                      .parameters = static_cast<std::int64_t>(graph.parameter_count()),
                      .memory_bytes = all_bytes[stages.size()]});
  }
  return stages;
}

}  // namespace

RunDescription describe_run(const TrainingContext& context, const Replica& replica,
                            const TrainingStep& step, const RunSchedule& schedule,
                            const Checkpoints& checkpoints) {
  RunDescription description;
  description.steps_per_epoch = schedule.steps_per_epoch();
  description.total_steps = schedule.total_steps();
  description.run_id = checkpoints.run_id();
  description.part = checkpoints.part();
  description.warnings = checkpoints.warnings();
  // The stages of a pipeline have different buckets, which a run file cannot contain.
  if (!context.has_stages()) {
    const std::span<const std::size_t> bytes = step.reducer().bucket_sizes();
    description.bucket_sizes.assign(bytes.begin(), bytes.end());
  }
  description.all_reduce = step.reducer().choice();
  description.transport = replica.transport->library_version();
  description.transport_warnings = replica.transport->warnings();
  description.kernels = replica.plan->choices();
  description.stages = describe_stages(context, *replica.plan);
  return description;
}

}  // namespace lockstep::train
