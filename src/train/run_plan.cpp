// SPDX-License-Identifier: BSD-3-Clause
#include "run_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/comm/messages.hpp"

namespace lockstep::train {

RunPlan::RunPlan(const Config& config, std::int64_t steps_per_epoch)
    : config_(config),
      steps_per_epoch_(steps_per_epoch),
      total_steps_(config.steps > 0 ? config.steps : config.epochs * steps_per_epoch),
      schedule_{.kind = config.optimiser.schedule,
                .peak = config.optimiser.peak(config.global_batch),
                .total_steps = total_steps_,
                .warmup_steps = std::llround(config.optimiser.warmup_epochs *
                                             static_cast<double>(steps_per_epoch))} {}

std::int64_t RunPlan::end_of_epoch_after(std::int64_t step) const {
  return std::min(total_steps_, (epoch_after(step) + 1) * steps_per_epoch_);
}

bool RunPlan::evaluates_after(std::int64_t step) const {
  const std::int64_t every = config_.evaluate_every;
  if (every < 0 || step == 0) return false;
  return is_over(step) || (every > 0 && step % (every * steps_per_epoch_) == 0);
}

optim::Coefficients RunPlan::coefficients_after(std::int64_t step, float gradient_scale) const {
  return {.learning_rate = static_cast<float>(schedule_.at(step)),
          .momentum = static_cast<float>(config_.optimiser.momentum),
          .weight_decay = static_cast<float>(config_.optimiser.weight_decay),
          .nesterov = config_.optimiser.nesterov,
          .gradient_scale = gradient_scale,
          .trust = static_cast<float>(config_.optimiser.trust),
          .step = step + 1};
}

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
                            const comm::GradientTransport& transport, const TrainingStep& step,
                            const RunPlan& plan, const Checkpoints& checkpoints) {
  RunDescription description;
  description.steps_per_epoch = plan.steps_per_epoch();
  description.total_steps = plan.total_steps();
  description.run_id = checkpoints.run_id();
  description.part = checkpoints.part();
  description.warnings = checkpoints.warnings();
  // The stages of a pipeline have different buckets, which a run file cannot contain.
  if (!context.has_stages()) {
    const std::span<const std::size_t> bytes = step.reducer().bucket_bytes();
    description.bucket_bytes.assign(bytes.begin(), bytes.end());
  }
  description.all_reduce = step.reducer().choice();
  description.transport = transport.library_version();
  description.transport_warnings = transport.warnings();
  description.kernels = replica.plan->choices();
  description.stages = describe_stages(context, *replica.plan);
  return description;
}

StepReport report_of(const StepResult& result, const RunPlan& plan, std::int64_t step) {
  return {.step = step,
          .total_steps = plan.total_steps(),
          .epoch = plan.epoch_after(step - 1) + 1,
          .step_of_epoch = (step - 1) % plan.steps_per_epoch() + 1,
          .steps_per_epoch = plan.steps_per_epoch(),
          .loss = result.totals.loss_sum / static_cast<double>(result.totals.images),
          .images = result.totals.images,
          .seconds = std::accumulate(result.seconds.begin(), result.seconds.end(), 0.0)};
}

}  // namespace lockstep::train
