// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "lockstep/record/run_records.hpp"
#include "lockstep/study/options.hpp"
#include "lockstep/train/context.hpp"
#include "lockstep/train/extra_steps.hpp"

// Times of the operations of a training step in a training.
namespace lockstep::study {

/// Result of `run_profile`.
struct ProfileResult {
  record::Profile profile;
  /// The profiled steps of all ranks in the trace-event format (JSON) that Perfetto and
  /// chrome://tracing read; empty without --trace.
  std::string trace;
};

/// Executes pairs of steps, one with the profile and one without, and returns their times. `steps`:
/// of a trainer whose run is complete; requires `Config::times_operations`. The times of the result
/// are complete on rank 0. Throws `AgreedError`. Collective: all ranks must call this.
ProfileResult run_profile(const train::TrainingContext& context, const ProfileOptions& options,
                          train::ExtraSteps steps);

}  // namespace lockstep::study
