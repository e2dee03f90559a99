#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/progress.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/summary.hpp"

namespace lockstep::train {

/// What a trainer works with. All of it outlives the trainer; `config` is resolved.
struct Workplace {
  const Config& config;
  const graph::Graph& graph;
  const data::TrainingData& data;
  const backend::Backend& backend;
  comm::Communicator& communicator;
  core::ProgressMonitor* progress = nullptr;  ///< informed of each phase of a step; may be null
};

/// A step that is done, summed over the ranks.
struct StepReport {
  std::int64_t step = 0;  ///< of the run, counted from 1
  std::int64_t total_steps = 0;
  std::int64_t epoch = 0;          ///< from 1
  std::int64_t step_of_epoch = 0;  ///< from 1
  std::int64_t steps_per_epoch = 0;
  double loss = 0;  ///< mean over the global batch
  std::int64_t images = 0;
  double seconds = 0;  ///< of this rank
};

/// Who is told how the run goes. Called on rank 0 alone.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void step_done(const StepReport&) {}
  virtual void evaluating() {}
  virtual void epoch_done(const record::EpochRecord&) {}
  /// The checkpoint that the run resumed from had not been evaluated. `epoch` has its number and
  /// the results of the evaluation, but no steps.
  virtual void resumed_state_evaluated(const record::EpochRecord&) {}
};

/// Trains one replica in lockstep with those of the other ranks.
class Trainer {
 public:
  /// Takes all memory, loads the weights or checkpoint that the configuration names, and makes sure
  /// that all ranks can start. Throws `AgreedError`. Collective.
  Trainer(const Workplace& workplace, Observer& observer);
  ~Trainer();

  /// From the present step to the last, or to a signal (SIGTERM, SIGINT, SIGUSR1), which all ranks
  /// heed after the same step. Throws `AgreedError` (diverged) where the loss is not finite. The
  /// summary is complete on rank 0. Collective.
  RunSummary run();

  std::int64_t steps_per_epoch() const;
  std::int64_t total_steps() const;
  std::int64_t first_step() const;  ///< 0, or where the checkpoint stood
  /// Identifier of the run, the same in all its parts: a checkpoint carries it. Valid on rank 0.
  const std::string& run_id() const;
  /// Number of processes that have worked on the run, this one included. Valid on rank 0.
  std::int64_t part() const;
  /// Whether the checkpoint that was resumed leaves nothing to train or evaluate.
  bool is_finished() const;
  std::span<const std::size_t> bucket_bytes() const;  ///< empty where nothing travels
  const comm::AllReduceChoice& all_reduce() const;
  std::string transport() const;  ///< the library by which gradients travel, and its version
  std::vector<backend::OperationChoice> kernels() const;  ///< of the training plan
  backend::ClockCost clock_cost() const;
  const backend::ModelState& state() const;  ///< the host's copy, after `run`

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::train
