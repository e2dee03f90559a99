// SPDX-License-Identifier: BSD-3-Clause
#include "replica.hpp"

#include <utility>

#include "gradient_communication.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/plan_options.hpp"
#include "lockstep/train/weights.hpp"

namespace lockstep::train {

namespace {

data::DistributedSampler make_sampler(const TrainingContext& context) {
  const std::size_t images = context.data.train->size();
  require_match(context.network(), context.data.train->info());
  require_enough_images(context.config, images);
  const auto global_batch = static_cast<std::size_t>(context.config.global_batch);
  return {images, global_batch, context.data_parallel.size(), context.config.seed,
          context.config.data.last_batch};
}

std::unique_ptr<backend::Plan> make_training_plan(const TrainingContext& context,
                                                  backend::ModelState& state,
                                                  core::StatisticsAllReduce* statistics,
                                                  OperationClock* operations) {
  backend::PlanOptions options =
      training_options(context.config, context.data.train->info().normalisation, statistics,
                       context.data_parallel.rank(), context.data_parallel.size());
  options.listener = operations;
  return make_plan(context.pipeline, context.graph, context.backend, state, options);
}

/// Returns the options of the feed. Stages after the first one use only the labels, so their images
/// are not augmented.
data::DataOptions feed_options(const TrainingContext& context) {
  data::DataOptions options = data_options(context.config);
  if (context.has_stages() && !context.pipeline->is_first())
    options.augmentation = data::Augmentation::none;
  return options;
}

}  // namespace

Replica::Replica(const TrainingContext& context, core::StatisticsAllReduce* all_reduce,
                 core::Buffer gradients)
    : sampler(make_sampler(context)),
      statistics(all_reduce != nullptr ? std::make_unique<EnabledStatisticsAllReduce>(*all_reduce)
                                       : nullptr),
      operations(context.config.times_operations ? std::make_unique<OperationClock>() : nullptr),
      state(context.backend.make_state(context.graph, context.config.optimiser.kind,
                                       std::move(gradients))),
      plan(make_training_plan(context, state, statistics.get(), operations.get())),
      feed(make_batch_feed(feed_options(context), context.config.reducer.kind, *context.data.train,
                           sampler, context.data_parallel, *plan)) {
  if (context.config.evaluate_every >= 0) {
    evaluator.emplace(context.config, context.graph, *context.data.test, context.backend, state,
                      context.data_parallel, context.pipeline, &context.world);
  }
  if (operations != nullptr) operations->attach(plan->timeline(), context.backend.device().queue());
  initialise(context.graph, context.config.seed, state);
}

std::unique_ptr<Replica> make_replica(const TrainingContext& context) {
  std::unique_ptr<comm::GradientTransport> transport = make_transport(context);
  core::begin_activity(context.monitor, core::Activity::planning);
  const core::DataType gradient_type =
      context.backend.gradient_type(context.config.reducer.gradient_type);
  core::Buffer gradients;
  core::StatisticsAllReduce* all_reduce = nullptr;
  together_over_groups(context.world, [&] {
    gradients =
        transport->allocate(context.graph.parameter_elements() * core::size_of(gradient_type));
    if (context.config.batch_norm == BatchNormMode::sync)
      all_reduce = &transport->statistics_all_reduce();
  });
  std::unique_ptr<Replica> replica;
  together(context.world,
           [&] { replica = std::make_unique<Replica>(context, all_reduce, std::move(gradients)); });
  // Only now, because a transport communicates when it is destroyed: if a rank fails above, the
  // others must have agreed on that before.
  replica->transport = std::move(transport);
  return replica;
}

}  // namespace lockstep::train
