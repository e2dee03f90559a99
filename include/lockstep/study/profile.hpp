// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "lockstep/record/run_file.hpp"
#include "lockstep/train/extra_steps.hpp"
#include "lockstep/train/trainer.hpp"

namespace lockstep::study {

/// Result of `run_profile`.
struct ProfileResult {
  record::Profile profile;
  /// The profiled steps of all ranks in the trace-event format (JSON) that Perfetto and
  /// chrome://tracing read; empty without --trace.
  std::string trace;
};

/// Executes pairs of steps, one with the profile and one without, and returns their times. `steps`:
/// of a trainer whose run is complete; requires --profile. The times of the result are complete on
/// rank 0. Throws `AgreedError`. Collective: all ranks must call this.
ProfileResult run_profile(const train::TrainingContext& context, train::ExtraSteps steps);

}  // namespace lockstep::study
