// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "checkpoint/checkpoints.hpp"
#include "lockstep/train/context.hpp"
#include "lockstep/train/events.hpp"
#include "lockstep/train/run_summary.hpp"
#include "replica.hpp"
#include "replica_policy.hpp"
#include "stop_agreement.hpp"

namespace lockstep::train {

/// Saves checkpoints between two steps, and measures the time for which they stop the training.
class CheckpointSaver final : public TrainingListener {
 public:
  /// All arguments must outlive this object.
  CheckpointSaver(const TrainingContext& context, Replica& replica, ReplicaPolicy& policy,
                  Checkpoints& checkpoints, RunState& run, StopAgreement& stop)
      : context_(context),
        replica_(replica),
        policy_(policy),
        checkpoints_(checkpoints),
        run_(run),
        stop_(stop) {}

  /// A rank has requested a checkpoint, which is saved when no step is in flight.
  void request() { is_requested_ = true; }
  bool is_requested() const { return is_requested_; }

  /// Starts to save a checkpoint; no step may be in flight. All ranks return at the same time, so
  /// that the duration is part of no step. After a signal, does not begin a save that the grace
  /// time does not permit. Throws `AgreedError`. Collective: all ranks must call this.
  void save();
  /// Saves a checkpoint and waits until it is on the disk. Returns whether the state is saved.
  /// Throws `AgreedError`. Collective: all ranks must call this.
  bool save_and_wait();

  /// Tells that the replicas were compared after the present step, so that `save` need not do it.
  void set_compared() { compared_step_ = run_.step; }

  /// Saves the last checkpoint, and sets what the summary states about checkpoints. Collective.
  void save_last(RunSummary& summary);

  void epoch_begin() override { epoch_pause_ = 0; }
  /// Subtracts the time for which checkpoints stopped the training since `epoch_begin`.
  void last_step_end(record::EpochRecord& epoch) override { epoch.seconds -= epoch_pause_; }
  /// Adds the time for which checkpoints stopped the training since the last call: that of a save
  /// after the evaluation counts for the next epoch.
  void epoch_end(record::EpochRecord& epoch) override;

 private:
  const TrainingContext& context_;
  Replica& replica_;
  ReplicaPolicy& policy_;
  Checkpoints& checkpoints_;
  RunState& run_;
  StopAgreement& stop_;
  bool is_requested_ = false;
  std::int64_t compared_step_ = 0;
  double epoch_pause_ = 0;
  double unrecorded_pause_ = 0;      ///< since the last epoch was recorded
  double refused_save_seconds_ = 0;  ///< of `RunSummary`
};

}  // namespace lockstep::train
