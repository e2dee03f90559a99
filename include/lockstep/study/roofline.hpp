// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/run_records.hpp"

// Times of the operations of training steps on one device, without communication.
namespace lockstep::study {

/// Returns the number of images with which the steps of a training are timed whose ranks have
/// `batch_per_rank` images and `threads` threads: as many as convolutions need for full speed, and
/// less memory than the training.
std::int64_t timed_batch(std::int64_t batch_per_rank, int threads);
/// Returns the time of a step of a training plan with these options on random images relative to
/// that in float32. Takes seconds.
double relative_step_time(backend::PlanOptions options, const graph::Graph& graph,
                          const backend::Backend& backend);

/// Runs some steps of a training plan without communication on random images and returns the time
/// of each operation with its lower bound. Throws `Error` (usage) if peak rates are not measured
/// for the kind of device.
record::Profile measure_roofline(const backend::PlanOptions& options, const graph::Graph& graph,
                                 const backend::Backend& backend);

/// Runs some steps of a training plan on random images. Returns the seconds of a step by node: the
/// sum of all phases. A node that is fused with a preceding one has 0 seconds. Throws `Error`
/// (usage) if the whole network needs more than `limit_bytes` bytes.
std::vector<double> measure_nodes(const backend::PlanOptions& options, const graph::Graph& network,
                                  const backend::Backend& backend, std::uint64_t limit_bytes);

}  // namespace lockstep::study
