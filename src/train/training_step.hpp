// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/optim/update.hpp"
#include "lockstep/train/trainer.hpp"
#include "replica.hpp"
#include "replica_policy.hpp"
#include "timing/step_clock.hpp"
#include "timing/step_log.hpp"

namespace lockstep::train {

/// Computes the parameters of all replicas from the reduced gradients of a step.
class ParameterUpdate {
 public:
  /// Every replica updates its own parameters, without communication.
  explicit ParameterUpdate(backend::Plan& plan) : plan_(plan) {}

  /// The update for the reducer of the configuration. With the reducer parameter-server and several
  /// ranks, rank 0 updates the parameters and sends them to the others, which have no sums of
  /// gradients. `replica` and `transport` must outlive this object. Collective over the
  /// data-parallel group.
  ParameterUpdate(const TrainingContext& context, Replica& replica,
                  comm::GradientTransport& transport)
      : plan_(*replica.plan) {
    if (context.config.reducer.kind != comm::ReducerKind::parameter_server ||
        context.data_parallel.size() == 1)
      return;
    has_sums_ = context.data_parallel.rank() == 0;
    broadcast_ = transport.make_broadcast(context.backend.parameters(replica.state));
  }

  /// Updates `count` parameters from index `first` on, whose gradients are reduced; see
  /// `backend::Plan::update`.
  void update(std::size_t first, std::size_t count) {
    if (has_sums_) plan_.update(first, count);
  }
  /// Completes the step: all replicas then have the new parameters. Ends the phases of what it
  /// does on `clock`. Collective if `traffic` is not 0.
  void finish(StepClock& clock) {
    if (broadcast_ == nullptr) return;
    broadcast_->run();
    clock.end(record::Phase::exposed_communication);
    if (has_sums_) return;
    plan_.parameters_changed();
    clock.end(record::Phase::update);
  }

  /// See `comm::GradientReducer`.
  void check() {
    if (broadcast_ != nullptr) broadcast_->check();
  }
  /// Returns the messages of this rank in the last step.
  comm::Traffic traffic() const {
    return broadcast_ != nullptr ? broadcast_->traffic() : comm::Traffic{};
  }

 private:
  backend::Plan& plan_;
  bool has_sums_ = true;  ///< whether this rank has the sums of the gradients
  std::unique_ptr<comm::ParameterBroadcast> broadcast_;  ///< null without parameter server
};

/// The training step of one replica: every step of the run executes the same sequence of calls
/// (training_step.cpp), on a GPU as a captured CUDA graph. Up to `depth` steps are in flight.
class TrainingStep {
 public:
  /// Prepares the all-reduces and the executor; this changes the state on a GPU, so
  /// `Backend::store` must follow. All arguments must outlive the step. Throws `AgreedError`, or
  /// `Error` on one rank if communication fails. Collective over the data-parallel group.
  TrainingStep(const TrainingContext& context, Replica& replica, comm::GradientTransport& transport,
               ReplicaPolicy& policy);

  /// Executes step `step`, counted from 1, or queues it on a GPU.
  void queue(std::int64_t step, const optim::Coefficients& coefficients);

  /// Waits for the oldest queued step, `step`, and combines its result and the `requests` with
  /// those of the other ranks. Throws like `ReplicaPolicy::finish_step`. Collective like it.
  StepResult collect(std::int64_t step, StepRequests requests);

  /// Captures the work, if the executor captures any. The set of captures must be empty, and no
  /// step may be in flight. On a GPU, this changes the state. Throws `AgreedError`. Collective.
  void capture();
  /// See `StepCaptures::swap`; no effect if the executor captures nothing.
  void swap_captured() {
    if (backend::StepCaptures* const captures = executor_->captures()) captures->swap();
  }

  int depth() const { return executor_->depth(); }
  comm::GradientReducer& reducer() { return *reducer_; }
  const comm::GradientReducer& reducer() const { return *reducer_; }

 private:
  class Work;

  comm::Communicator& world_;
  core::ProgressMonitor* monitor_;  ///< may be null
  BatchFeed& feed_;
  backend::Plan& plan_;
  ReplicaPolicy& policy_;
  std::unique_ptr<comm::GradientReducer> reducer_;
  ParameterUpdate update_;
  StepClock clock_;
  std::unique_ptr<backend::StepExecutor> executor_;
};

}  // namespace lockstep::train
