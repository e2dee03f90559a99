#pragma once

#include <string>

#include "lockstep/record/profile.hpp"

namespace lockstep::train {

/// Result of `Trainer::profile`.
struct ProfileResult {
  record::Profile profile;
  /// The profiled steps of all ranks in the trace-event format (JSON) that Perfetto and
  /// chrome://tracing read; empty without --trace.
  std::string trace;
};

}  // namespace lockstep::train
