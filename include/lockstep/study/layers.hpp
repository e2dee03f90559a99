// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/layer.hpp"
#include "lockstep/record/run_records.hpp"

namespace lockstep::study {

/// Steps before those that are measured, and measured steps, of single layers and of stacks.
inline constexpr int layer_warm_up = 5, layer_repeats = 10;

/// Measures the forward and the backward pass of one layer in a network that contains only this
/// layer (`graph::stack_layers`), with the implementations that a training plan uses; the times are
/// those of the layer alone, from the timestamps of its operations. If the estimated memory exceeds
/// `limit_bytes` or the device reports a lack of memory, the status of the row is "out_of_memory"
/// and nothing is measured. `options`: of a training plan for the images of the layer; nothing is
/// reduced. `ceilings`: those of the device, copied to the row. If the device has a readable energy
/// counter, further steps run until it has counted for a second. Throws the other errors of
/// `Backend::compile`.
record::LayerRow measure_layer(const backend::PlanOptions& options, const graph::Layer& layer,
                               const backend::Backend& backend, const backend::Ceilings& ceilings,
                               std::uint64_t limit_bytes);

}  // namespace lockstep::study
