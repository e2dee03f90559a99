// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint_saver.hpp"

#include <utility>

#include "lockstep/core/progress.hpp"
#include "lockstep/core/timeline.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::train {

void CheckpointSaver::save() {
  is_requested_ = false;
  const double begin = core::host_seconds();
  core::begin_activity(context_.monitor, core::Activity::saving_checkpoint, run_.step);
  // A replica that differs from the others must not be saved.
  if (compared_step_ != run_.step) {
    policy_.require_equal(context_.backend.parameter_hash(replica_.state), run_.step);
    set_compared();
  }
  together(context_.world, [&] { context_.backend.fetch(replica_.state); });
  run_.loss_scale.reset();
  if (const backend::LossScaling* const scaling = replica_.plan->loss_scaling())
    run_.loss_scale = scaling->loss_scale();
  if (const auto end = stop_.agreed_excess(checkpoints_.expected_seconds())) {
    refused_save_seconds_ = *end;
  } else {
    checkpoints_.save(run_);
  }
  stop_.agree_to_stop();
  const double seconds = core::host_seconds() - begin;
  epoch_pause_ += seconds;
  unrecorded_pause_ += seconds;
}

bool CheckpointSaver::save_and_wait() {
  save();
  core::begin_activity(context_.monitor, core::Activity::waiting_for_checkpoint, run_.step);
  return checkpoints_.wait_until_written() && checkpoints_.kept_step() == run_.step;
}

void CheckpointSaver::epoch_end(record::EpochRecord& epoch) {
  epoch.measurements["/epochs/checkpoint_seconds"] = {std::exchange(unrecorded_pause_, 0)};
}

void CheckpointSaver::save_last(RunSummary& summary) {
  summary.checkpoint_saved = run_.step > 0 && save_and_wait();
  summary.kept_step = checkpoints_.kept_step();
  summary.refused_save_seconds = refused_save_seconds_;
}

}  // namespace lockstep::train
