// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/optim/update.hpp"
#include "lockstep/train/context.hpp"
#include "lockstep/train/step_result.hpp"
#include "parameter_update.hpp"
#include "replica.hpp"
#include "replica_policy.hpp"
#include "timing/step_clock.hpp"

namespace lockstep::train {

/// The training step of one replica: every step of the run executes the same sequence of calls
/// (training_step.cpp), on a GPU as a captured CUDA graph. Up to `depth` steps are in flight.
class TrainingStep {
 public:
  /// Prepares the all-reduces and the executor; this changes the state on a GPU, so
  /// `Backend::store` must follow. All arguments must outlive the step. Throws `AgreedError`, or
  /// `Error` on one rank if communication fails. Collective: all ranks must call
  /// this.
  TrainingStep(const TrainingContext& context, Replica& replica, ReplicaPolicy& policy);

  /// Executes step `step`, counted from 1, until the parameters are updated; a GPU starts it. So it
  /// is collective on CPUs, unless the replicas are independent. Sets the coefficients before the
  /// batch is uploaded, see `backend::Plan::set_coefficients`.
  void start(std::int64_t step, const optim::Coefficients& coefficients);

  /// Waits for the oldest step in flight, `step`, and combines its result and the `requests` with
  /// those of the other ranks. Throws like `ReplicaPolicy::agree_on_step`. Collective like it.
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
