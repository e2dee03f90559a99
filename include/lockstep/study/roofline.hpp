// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/config.hpp"

// Times of the operations of training steps on one device, without communication.
namespace lockstep::study {

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
