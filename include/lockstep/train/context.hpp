// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"

namespace lockstep::train {

/// The objects that a trainer uses. Those that are references must outlive the trainer.
struct TrainingContext {
  Config config;              ///< resolved
  const graph::Graph& graph;  ///< of this rank: the network, or its stage of a pipeline
  const data::TrainingData& data;
  const backend::Backend& backend;
  comm::Communicator& world;  ///< all ranks of the run
  /// Data-parallel group: the ranks that hold replicas of the network. They split the mini-batch
  /// and all-reduce their gradients.
  comm::Communicator& data_parallel;
  core::ProgressMonitor* monitor = nullptr;  ///< notified of what this rank does; may be null
  /// Null if every rank computes the whole network and batches are not divided. `graph` and
  /// `data_parallel` are those of the pipeline.
  const Pipeline* pipeline = nullptr;
  /// Options that checkpoints store; a resume warns if they have changed.
  Entries options = {};

  const graph::Graph& network() const { return pipeline != nullptr ? pipeline->network : graph; }
  bool has_stages() const { return pipeline != nullptr && pipeline->count() > 1; }
};

}  // namespace lockstep::train
