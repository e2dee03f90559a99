#include "replica.hpp"

#include <utility>

#include "lockstep/train/agreement.hpp"
#include "lockstep/train/weights.hpp"
#include "plan_options.hpp"

namespace lockstep::train {

namespace {

data::DistributedSampler make_sampler(const Workplace& place) {
  const std::size_t images = place.data.train.size();
  require_enough_images(place.config, images);
  const auto global_batch = static_cast<std::size_t>(place.config.global_batch);
  return {images, global_batch, place.communicator.size(), place.config.seed,
          place.config.last_batch};
}

}  // namespace

Replica::Replica(const Workplace& place, core::StatisticsSum* replicas, core::Buffer gradients)
    : sampler(make_sampler(place)),
      state(place.backend.make_state(place.graph, std::move(gradients))),
      plan(place.backend.compile(place.graph, state, training_options(place.config, replicas))),
      feed(make_batch_feed(place.config, place.data.train, sampler, place.communicator.rank(),
                           *plan)),
      runner(place.backend.make_step_runner(*plan)) {
  if (place.config.evaluate_every >= 0) {
    evaluator.emplace(place.config, place.graph, place.data.test, place.backend, state,
                      place.communicator);
  }
  initialise(place.graph, place.config.seed, state);
}

std::unique_ptr<Replica> make_replica(const Workplace& place, comm::GradientTransport& transport,
                                      core::DataType gradient_type) {
  core::begin_activity(place.progress, "planning and kernel timing");
  core::Buffer gradients =
      transport.allocate(place.graph.parameter_elements() * core::size_of(gradient_type));
  core::StatisticsSum* const replicas =
      place.config.batch_norm == BatchNormMode::sync ? &transport.statistics_sum() : nullptr;
  std::unique_ptr<Replica> replica;
  together(place.communicator,
           [&] { replica = std::make_unique<Replica>(place, replicas, std::move(gradients)); });
  return replica;
}

comm::ReducerOptions reducer_options(const Workplace& place) {
  const Config& config = place.config;
  // For gradients in host memory, `automatic` selects the algorithm by timing, but the algorithm
  // determines the order of summation.
  const bool is_free = config.all_reduce == comm::AllReduceWay::automatic;
  const bool is_fixed = config.deterministic && is_free && place.backend.queue().is_host();
  return {.kind = config.reducer,
          .bucket_bytes = config.bucket_bytes(),
          .gradient_type = config.gradient_type,
          .way = is_fixed ? comm::AllReduceWay::pieces : config.all_reduce};
}

}  // namespace lockstep::train
