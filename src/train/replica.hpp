// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>

#include "batch_feed.hpp"
#include "enabled_statistics_all_reduce.hpp"
#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/data/loader.hpp"
#include "lockstep/train/context.hpp"
#include "lockstep/train/evaluation.hpp"
#include "lockstep/train/timing/operation_clock.hpp"

namespace lockstep::train {

/// The objects of a trainer that a rank constructs without communication, and the transport of its
/// gradients.
struct Replica {
  /// `all_reduce`: all-reduce of batch-norm statistics for --bn sync; null otherwise.
  Replica(const TrainingContext& context, core::StatisticsAllReduce* all_reduce,
          core::Buffer gradients);

  /// Outlives the gradients, which it allocates. `make_replica` sets it.
  std::unique_ptr<comm::GradientTransport> transport;
  data::DistributedSampler sampler;
  std::unique_ptr<EnabledStatisticsAllReduce> statistics;  ///< null unless --bn sync
  std::unique_ptr<OperationClock> operations;              ///< null unless --profile
  backend::ModelState state;
  std::unique_ptr<backend::Plan> plan;
  std::unique_ptr<BatchFeed> feed;
  std::optional<Evaluator> evaluator;
};

/// Creates the transport, allocates the gradients and constructs the replica. Throws `AgreedError`.
/// Collective: all ranks must call this.
std::unique_ptr<Replica> make_replica(const TrainingContext& context);

}  // namespace lockstep::train
