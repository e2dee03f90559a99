// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "lockstep/core/progress.hpp"
#include "lockstep/train/context.hpp"
#include "lockstep/train/events.hpp"

namespace lockstep::train {

/// Notifies the listener of the trainer's user, on rank 0 only. The other ranks wait for rank 0 at
/// the next collective call: while it writes an epoch to the run file, all ranks report this as
/// their activity.
class FirstRankListener final : public TrainingListener {
 public:
  /// Both arguments must outlive the object.
  FirstRankListener(const TrainingContext& context, TrainingListener& listener)
      : monitor_(context.monitor), listener_(context.world.rank() == 0 ? &listener : nullptr) {}

  void run_begin(double origin) override {
    if (listener_ != nullptr) listener_->run_begin(origin);
  }
  void epoch_begin() override {
    if (listener_ != nullptr) listener_->epoch_begin();
  }
  void step_end(const CompletedStep& step, const StepResult& result) override {
    last_step_ = step.step;
    if (listener_ != nullptr) listener_->step_end(step, result);
  }
  void steps_end(record::EpochRecord& epoch) override {
    if (listener_ != nullptr) listener_->steps_end(epoch);
  }
  void evaluation_begin() override {
    if (listener_ != nullptr) listener_->evaluation_begin();
  }
  void evaluation_end(const CompletedEvaluation& evaluation) override {
    if (listener_ != nullptr) listener_->evaluation_end(evaluation);
  }
  void epoch_end(record::EpochRecord& epoch) override {
    core::begin_activity(monitor_, core::Activity::writing_run_file, last_step_);
    if (listener_ != nullptr) listener_->epoch_end(epoch);
  }
  void run_end(RunSummary& summary) override {
    if (listener_ != nullptr) listener_->run_end(summary);
  }

 private:
  core::ProgressMonitor* monitor_;  ///< may be null
  TrainingListener* listener_;      ///< null on ranks other than 0
  std::int64_t last_step_ = 0;
};

}  // namespace lockstep::train
