// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// The place of a rank in a pipeline. The ranks are numbered replica by replica: rank =
/// replica * stages + stage, so that the stages of a replica have consecutive ranks.
struct Pipeline {
  int stage = 0;
  std::int64_t micro_batches = 1;  ///< per step
  PipelineSchedule schedule = PipelineSchedule::gpipe;
  const graph::Graph& network;                   ///< the whole network
  std::vector<graph::Graph> graphs;              ///< of all stages, in forward order
  std::unique_ptr<comm::Communicator> stages;    ///< the stages of this replica: rank = stage
  std::unique_ptr<comm::Communicator> replicas;  ///< data-parallel group: the ranks of this stage

  int count() const { return static_cast<int>(graphs.size()); }
  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == count(); }
  const graph::Graph& graph() const { return graphs[static_cast<std::size_t>(stage)]; }
  /// Returns the number of micro-batches whose activations this stage stores at the same time.
  std::int64_t in_flight() const;
};

/// Returns the seconds of a training step by node of the network; 0 for all nodes if the device
/// does not measure operations. Throws `Error` (usage) if the whole network does not fit in the
/// memory.
using NodeTimer = std::function<std::vector<double>()>;

/// Divides the ranks of `world` into stages and replicas and cuts `network`, by the times of its
/// nodes (--stage-cuts auto; rank 0 calls `node_seconds`), by their FLOPs, or before the given
/// layers. `config` must be resolved; `network` must outlive the pipeline. Returns null if there is
/// one stage and one micro-batch. Throws `AgreedError` (usage) if the network cannot be cut in this
/// way. Collective: all ranks must call this.
std::unique_ptr<Pipeline> make_pipeline(const Config& config, const graph::Graph& network,
                                        comm::Communicator& world, const NodeTimer& node_seconds);

/// Returns the memory of a plan of `make_plan` on `device`; messages are in host memory.
/// `micro_batch`: of the plan of its stage for one micro-batch. `options`: those of the whole batch
/// of the replica.
backend::MemoryUse pipeline_memory(const Pipeline& pipeline, const backend::MemoryUse& micro_batch,
                                   const backend::PlanOptions& options,
                                   const backend::Device& device);

/// When a plan of a pipeline executes its passes and the update once without communication, so that
/// all memory is allocated and all kernels are loaded. In host memory this changes the state.
enum class WarmUp { on_devices, always };

/// Returns the plan of this rank for the batch of its replica: of its stage, or of `graph` if
/// `pipeline` is null. `state`: of the stage; on a GPU, the state of the device becomes that of its
/// buffers. `options`: those of the whole batch of the replica. All arguments must outlive the
/// plan. Throws `Error` like `Backend::compile`.
std::unique_ptr<backend::Plan> make_plan(const Pipeline* pipeline, const graph::Graph& graph,
                                         const backend::Backend& backend,
                                         backend::ModelState& state,
                                         const backend::PlanOptions& options,
                                         WarmUp warm_up = WarmUp::on_devices);

/// Description of a stage.
struct StageDescription {
  std::string first_layer, last_layer;  ///< names of its first and its last node
  std::int64_t parameters = 0;
  std::uint64_t memory_bytes = 0;  ///< state, and activations of the micro-batches in flight
};

/// Durations on one rank, in seconds: of the computation, of the copies to and from messages, and
/// of the waits for messages of other stages.
struct PipelineSeconds {
  double busy = 0, transfer = 0, wait = 0;
};

/// Returns the share of the time for which each of `stages` equal stages is idle, (N - 1) /
/// (M + N - 1).
inline double ideal_bubble(int stages, std::int64_t micro_batches) {
  return static_cast<double>(stages - 1) / static_cast<double>(micro_batches + stages - 1);
}

}  // namespace lockstep::train
