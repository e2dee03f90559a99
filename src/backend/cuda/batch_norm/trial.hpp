// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "passes.hpp"

namespace lockstep::backend::cuda {

/// An implementation with its execution time in seconds; 0: not timed.
struct TimedPass {
  std::unique_ptr<BatchNormPass> pass;
  double seconds = 0;
};

/// Returns the fastest candidate for a pass in training, and the first one if they cannot be timed.
/// The times are stored in the engine cache, and the outcome for each candidate is written to the
/// engine log.
TimedPass fastest(const BatchNormSetting& setting, BatchNormCandidates candidates);

}  // namespace lockstep::backend::cuda
