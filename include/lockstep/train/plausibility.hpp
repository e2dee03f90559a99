// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/graph.hpp"
#include "lockstep/record/run_records.hpp"
#include "lockstep/train/context.hpp"
#include "lockstep/train/run_description.hpp"

// Warnings about a run that works but probably does not do what its user meant.
// docs/reliability.md lists them with their limits; those about the images are in
// `lockstep/data/plausibility.hpp`.
namespace lockstep::train {

/// Returns a warning, one sentence, for each option that has another effect in this run than in
/// most: few images per batch norm, a warm-up without end, repeated images.
std::vector<std::string> implausible_plan(const TrainingContext& context,
                                          const RunDescription& run);

/// Returns a warning if the network is worse than one that guesses: the test loss of the last epoch
/// is above ln(classes), or, if it was not evaluated, its training loss is above ten times this.
/// Returns an empty text otherwise. `last_epoch`: of the run, with its losses.
std::string implausible_result(const graph::Graph& network, const record::EpochRecord& last_epoch);

/// The same for weights that were not trained in this run.
std::string implausible_test_loss(const graph::Graph& network, double test_loss);

}  // namespace lockstep::train
