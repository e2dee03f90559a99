// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "lockstep/backend/backend.hpp"
#include "lockstep/train/context.hpp"
#include "lockstep/train/events.hpp"
#include "lockstep/train/extra_steps.hpp"
#include "lockstep/train/run_description.hpp"
#include "lockstep/train/run_summary.hpp"

namespace lockstep::train {

/// Trains one replica, or one stage of it, with data-parallel SGD, together with the trainers of
/// the other ranks.
class Trainer {
 public:
  /// Allocates all memory, loads the weights or the checkpoint that the configuration names, and
  /// makes sure that all ranks can start. `listener` is notified on rank 0 only, as the last
  /// of the listeners (`EventList`), and must not communicate; it must outlive the trainer. Throws
  /// `AgreedError`. Collective: all ranks must call this.
  Trainer(const TrainingContext& context, TrainingListener& listener);
  ~Trainer();

  /// Trains from the current step to the last one, or until a rank receives a signal
  /// (`core::StopSignal`), in which case all ranks stop after the same step. Throws `AgreedError`
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
