// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/record/run_records.hpp"
#include "lockstep/train/timing/operation_clock.hpp"

namespace lockstep::train {

struct Replica;
class TrainingStep;

/// Measurements of a step on this rank.
struct ExtraStep {
  record::PhaseSeconds seconds{};                ///< of each phase
  std::span<const comm::BucketTimes> buckets{};  ///< valid until the next step
  bool is_stopping = false;                      ///< whether a rank has received a signal
};

/// Further steps of a trainer after its run, for measurements. They leave the parameters as they
/// are, but change the momentum and the running statistics.
class ExtraSteps {
 public:
  /// `epoch`: of the sampler, counted from 0. `steps_per_epoch`: of the sampler. `last_step`:
  /// number of the last step of the run.
  ExtraSteps(Replica& replica, TrainingStep& step, std::int64_t epoch, std::int64_t steps_per_epoch,
             std::int64_t last_step);

  /// Executes a step. Throws `AgreedError`. Collective: all ranks must call this.
  ExtraStep run();

  /// Exchanges the captured work with a second set of captures (`StepCaptures::swap`).
  void swap_captured();
  /// Captures the work into a set that is empty. Throws `AgreedError`. Collective: all ranks must
  /// call this.
  void capture();

  int depth() const;  ///< number of captures, see `StepExecutor::depth`
  const backend::Plan& plan() const;
  const comm::GradientReducer& reducer() const;
  OperationClock& operations() const;  ///< clock of the plan's operations; requires --profile

 private:
  Replica& replica_;
  TrainingStep& step_;
  std::int64_t epoch_;
  const std::int64_t steps_per_epoch_;
  std::int64_t last_step_;
  std::int64_t step_of_epoch_ = 0;
};

}  // namespace lockstep::train
