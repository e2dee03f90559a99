// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/extra_steps.hpp"
#include "lockstep/train/pipeline/pipeline.hpp"
#include "lockstep/train/timing/summary.hpp"

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
  core::ProgressMonitor* monitor = nullptr;  ///< notified of each phase of a step; may be null
  /// Null if every rank computes the whole network and batches are not divided. `graph` and
  /// `data_parallel` are those of the pipeline.
  const Pipeline* pipeline = nullptr;
  /// Options that checkpoints store; a resume warns if they have changed.
  Entries options = {};

  const graph::Graph& network() const { return pipeline != nullptr ? pipeline->network : graph; }
  bool has_stages() const { return pipeline != nullptr && pipeline->count() > 1; }
};

/// Results of a completed step over all ranks; with `--reducer none`, `loss` and `images` are those
/// of rank 0 alone.
struct StepReport {
  std::int64_t step = 0;  ///< step of the run, counted from 1
  std::int64_t total_steps = 0;
  std::int64_t epoch = 0;          ///< counted from 1
  std::int64_t step_of_epoch = 0;  ///< counted from 1
  std::int64_t steps_per_epoch = 0;
  double loss = 0;  ///< mean over the global batch
  std::int64_t images = 0;
  double seconds = 0;  ///< duration of the step on this rank
};

/// Facts about a run that are known before its first step.
struct RunDescription {
  std::int64_t steps_per_epoch = 0, total_steps = 0;
  std::int64_t first_step = 0;  ///< steps of the checkpoint that was resumed; 0 without one
  /// Whether the run needs no further training or evaluation, for example because the checkpoint
  /// that it resumed from is the last one.
  bool is_finished = false;
  /// Valid on rank 0: the identifier of the run, which is the same in all processes that continue
  /// it, the number of these processes including this one, and the warnings that a resume has
  /// printed about differences between the run before and after it.
  std::string run_id;
  std::int64_t part = 0;
  std::vector<std::string> warnings;
  /// Bytes of each bucket as communicated; empty if nothing is communicated, and for the stages of
  /// a pipeline, whose buckets differ.
  std::vector<std::size_t> bucket_bytes;
  comm::AllReduceChoice all_reduce;
  std::string transport;  ///< name and version of the library that transports the gradients
  std::vector<std::string> transport_warnings;    ///< see `comm::GradientTransport::warnings`
  std::vector<backend::OperationChoice> kernels;  ///< implementations in the training plan
  /// Network interfaces of the telemetry of all ranks (`record::RunHeader`); nothing without it.
  std::optional<std::vector<std::string>> telemetry_interfaces;
  /// RAPL zones of this host that are measured, or "not readable: REASON".
  std::string host_energy_source = "not measured";
  std::vector<StageDescription> stages;  ///< of the first replica on rank 0; empty without pipeline
};

/// Callback interface for the progress of a run. Its functions are called on rank 0 only.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void step_done(const StepReport&) {}
  virtual void evaluating() {}
  virtual void epoch_done(const record::EpochRecord&) {}
  /// Called after the evaluation of a resumed state that had not been evaluated before. `epoch` has
  /// the number of its epoch and the results of the evaluation, but no steps.
  virtual void resumed_state_evaluated(const record::EpochRecord&) {}
};

/// Trains one replica with synchronous data-parallel SGD, together with the trainers of the other
/// ranks.
class Trainer {
 public:
  /// Allocates all memory, loads the weights or the checkpoint that the configuration names, and
  /// makes sure that all ranks can start. Throws `AgreedError`. Collective: all ranks must call
  /// this.
  Trainer(const TrainingContext& context, Observer& observer);
  ~Trainer();

  /// Trains from the current step to the last one, or until a rank receives a signal (SIGTERM,
  /// SIGINT, SIGUSR1), in which case all ranks stop after the same step. Throws `AgreedError`
  /// (diverged) if the loss is not finite; with `--reducer none` throws `Error` (diverged) on the
  /// affected rank only. The returned summary is complete on rank 0. Collective: all ranks must
  /// call this.
  RunSummary run();

  /// Returns further steps for measurements. Must follow `run`, which must not be called again. The
  /// trainer must outlive the result.
  ExtraSteps extra_steps();

  const RunDescription& description() const;
  const backend::ModelState& state() const;  ///< copy in host memory; valid after `run`

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::train
