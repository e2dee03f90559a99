// SPDX-License-Identifier: BSD-3-Clause
#include "run_description.hpp"

#include <numeric>

#include "pipeline/pipeline_report.hpp"

namespace lockstep::train {

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
  description.stages = describe_stages(context.pipeline, context.world, *replica.plan);
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
