#pragma once

#include <memory>
#include <optional>

#include "batch_feed.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/data/sampler.hpp"
#include "lockstep/train/evaluation.hpp"
#include "lockstep/train/trainer.hpp"

namespace lockstep::train {

/// The objects of a trainer that a rank constructs without communication.
struct Replica {
  /// `replicas`: all-reduce of batch-norm statistics for --bn sync; null otherwise.
  Replica(const TrainingContext& context, core::StatisticsAllReduce* replicas,
          core::Buffer gradients);

  data::DistributedSampler sampler;
  backend::ModelState state;
  std::unique_ptr<backend::Plan> plan;
  std::unique_ptr<BatchFeed> feed;
  std::optional<Evaluator> evaluator;
};

/// Allocates the gradients and constructs the replica. Throws `AgreedError`. Collective: all ranks
/// must call this.
std::unique_ptr<Replica> make_replica(const TrainingContext& context,
                                      comm::GradientTransport& transport);

/// Returns the options of the reducer. With --deterministic on CPUs, --all-reduce auto becomes a
/// fixed algorithm.
comm::ReducerOptions reducer_options(const TrainingContext& context);

}  // namespace lockstep::train
