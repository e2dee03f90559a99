// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <optional>

#include "checkpoint/checkpoints.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/process/stop_signal.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/timing/summary.hpp"
#include "lockstep/train/trainer.hpp"
#include "replica.hpp"
#include "replica_policy.hpp"
#include "run_plan.hpp"
#include "timing/instrument.hpp"

// What all ranks do between two steps: they agree to stop, save checkpoints, and evaluate.
namespace lockstep::train {

/// What all ranks know of the signals that stop a run. All functions are collective except `stop`
/// and `is_stopping`.
class StopAgreement {
 public:
  /// `grace_seconds`: between the arrival of a signal and the end of the process by its sender.
  StopAgreement(comm::Communicator& world, double grace_seconds)
      : world_(world), grace_seconds_(grace_seconds) {}

  /// Stops the run: all ranks know that one of them has received a signal.
  void stop() { is_stopping_ = true; }
  bool is_stopping() const { return is_stopping_; }
  /// Stops the run if a rank has received a signal. Returns `is_stopping`.
  bool check() { return is_stopping_ = is_stopping_ || signal() != 0; }

  /// Returns the number of a signal that a rank has received; 0 if none has.
  int signal() const { return agreed_signal(world_); }

  /// Returns the time from the first signal to the end of work that begins now and takes `seconds`
  /// (the longest time of a rank counts), if it exceeds the grace time; nothing if it does not, or
  /// if no rank has received a signal.
  std::optional<double> excessive_seconds(double seconds) const {
    std::array values{core::StopSignal::seconds(), seconds};
    world_.maximum(values);
    const double end = values[0] + values[1];
    return values[0] == 0 || end <= grace_seconds_ ? std::nullopt : std::optional(end);
  }

 private:
  comm::Communicator& world_;
  double grace_seconds_;
  bool is_stopping_ = false;
  core::StopSignal stop_;  ///< the owner of this object reacts to signals
};

/// Saves checkpoints between two steps, and measures the time for which they stop the training.
class CheckpointSaver final : public Instrument {
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

  void begin_epoch() override { epoch_pause_ = 0; }
  void add_to(record::EpochRecord& epoch) override;
  /// Returns the seconds for which checkpoints stopped the training since `begin_epoch`.
  double epoch_pause() const { return epoch_pause_; }
  /// Saves the last checkpoint, and sets what the summary states about checkpoints. Collective.
  void finish(RunSummary& summary);

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

/// The evaluations of a run.
class RunEvaluation {
 public:
  /// `evaluator` has a value if the options require evaluations. All arguments must outlive this
  /// object.
  RunEvaluation(const TrainingContext& context, Observer& observer,
                std::optional<Evaluator>& evaluator, const RunPlan& plan, RunState& run,
                CheckpointSaver& saver, StopAgreement& stop)
      : context_(context),
        observer_(observer),
        evaluator_(evaluator),
        plan_(plan),
        run_(run),
        saver_(saver),
        stop_(stop) {}

  /// Returns whether the options require an evaluation of the current state that has not been done
  /// yet.
  bool is_due() const {
    return plan_.evaluates_after(run_.step) && run_.evaluated_step != run_.step;
  }

  /// Evaluates the state if that is due, and adds the results to `epoch`. If a signal has stopped
  /// the training, saves the state before; a resumed run then repeats the evaluation. Collective.
  void run(record::EpochRecord& epoch);
  /// Throws `AgreedError` (diverged) if `epoch` was evaluated and its test loss is not finite. All
  /// ranks must call this.
  void require_finite(const record::EpochRecord& epoch) const;
  /// Evaluates the resumed state if that is due: the previous process may have been killed after
  /// saving the last step of an epoch and before evaluating it. Collective.
  void run_after_resume();

  /// Adds the accuracies of the whole run, also if this process resumed it.
  void add_to(RunSummary& summary) const;

 private:
  bool continues();

  const TrainingContext& context_;
  Observer& observer_;
  std::optional<Evaluator>& evaluator_;
  const RunPlan& plan_;
  RunState& run_;
  CheckpointSaver& saver_;
  StopAgreement& stop_;
};

}  // namespace lockstep::train
