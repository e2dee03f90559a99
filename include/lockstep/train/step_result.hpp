// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/comm/gradient_reducer.hpp"
#include "lockstep/record/run_records.hpp"

namespace lockstep::train {

/// Requests that take effect after a step or an epoch.
struct StepRequests {
  bool stop = false;  ///< a signal was received
  bool save = false;  ///< a checkpoint is due
};

/// Results of a step over all replicas, and the requests of any rank; if the replicas are
/// independent, the results of this replica alone, and no requests.
struct StepTotals {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t images = 0;
  StepRequests requests{};
};

/// Measurements of a completed step.
struct StepResult {
  StepTotals totals;
  record::PhaseSeconds seconds{};                ///< of each phase on this rank
  double start_seconds = 0;                      ///< see `core::Timeline::start_seconds`
  std::span<const comm::BucketTimes> buckets{};  ///< valid until the next step is collected
  comm::Traffic traffic{};                       ///< messages of this rank
};

}  // namespace lockstep::train
