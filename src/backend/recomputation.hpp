// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>

#include "memory_planner.hpp"

namespace lockstep::backend {

/// The output of a step, for the choice of the outputs that the backward pass computes again.
struct StepOutput {
  /// From the first to the last use in the forward pass; `again`: uses in the backward pass.
  Lifetime lifetime;
  std::span<const int> inputs;  ///< the steps whose outputs are needed to compute it
  bool can_recompute = false;
};

/// Chooses the outputs that are not preserved between the forward and the backward pass, but
/// computed again before their first use in the backward pass. Candidates are those whose inputs
/// are preserved in any case; of these, the fewest that lower the largest number of bytes that are
/// alive at the same time, together with `others`, as far as all do. Sets the lifetimes: a
/// recomputed output has two periods, any other output one.
void choose_recomputed(std::span<StepOutput> outputs, std::span<const Lifetime> others);

}  // namespace lockstep::backend
