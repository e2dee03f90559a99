// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/config.hpp"
#include "lockstep/train/trainer.hpp"

// Times of the operations of a training step: in a training, and on one device without
// communication.
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

/// All operations of a profile of the same kind, shape, phase and implementation: sums over them,
/// of one step on rank 0.
struct OperationGroup {
  std::string what, phase, implementation;
  std::string ceiling;  ///< of the longest operation
  double calls = 0, flops = 0, bytes = 0, seconds = 0, bound_seconds = 0;
};

/// Returns the groups of the operations, in descending order of `seconds`.
std::vector<OperationGroup> group_operations(const record::Profile& profile);

/// Returns the number of images with which `relative_step_time` measures.
std::int64_t timed_batch(const train::Config& config);
/// Returns the time of a training step in the precision of `config` relative to that in float32, on
/// `timed_batch` random images. Takes seconds.
double relative_step_time(train::Config config, const graph::Graph& graph,
                          const backend::Backend& backend);

/// Runs some training steps without communication on random images and returns the time of each
/// operation with its lower bound. Throws `Error` (usage) if peak rates are not measured for the
/// kind of device.
record::Profile measure_roofline(const train::Config& config, const graph::Graph& graph,
                                 const backend::Backend& backend);

/// Runs some training steps of one micro-batch on random images. Returns the seconds of a step by
/// node: the sum of all phases. A node that is fused with a preceding one has 0 seconds. Throws
/// `Error` (usage) if the whole network needs more than `limit_bytes` bytes.
std::vector<double> measure_nodes(train::Config config, const graph::Graph& network,
                                  const backend::Backend& backend, std::uint64_t limit_bytes);

}  // namespace lockstep::study
