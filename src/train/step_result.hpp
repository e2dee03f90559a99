#pragma once

#include <span>

#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/record/phase.hpp"
#include "replica_policy.hpp"

namespace lockstep::train {

/// Measurements of a completed step.
struct StepResult {
  StepTotals totals;
  record::PhaseSeconds seconds{};                ///< of each phase on this rank
  double start_seconds = 0;                      ///< see `core::Timeline::start_seconds`
  std::span<const comm::BucketTimes> buckets{};  ///< valid until the next step is collected
  comm::Traffic traffic{};                       ///< messages of this rank
};

}  // namespace lockstep::train
