// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/graph/layer.hpp"
#include "lockstep/record/run_records.hpp"
#include "lockstep/study/memory_limit.hpp"

namespace lockstep::study {

/// Largest number of layers per device that is searched for.
inline constexpr std::int64_t deepest_stack = 10'000;

/// Finds the deepest stack of equal layers (`graph::stack_layers`) whose training fits in the
/// memory of the devices of all ranks of `world`, each of which holds an equal part of the layers
/// as a stage of a pipeline: by the estimate from shapes first, then by running a forward and a
/// backward pass. The rows are the deepest stack that ran, with the times of its forward pass
/// through all stages, and the first that did not fit. Bytes are those of the rank that needs most.
///
/// `options`: of a training plan for the images of the layer; no gradients are reduced. `limit`:
/// memory of each device, or of each process if the device uses host memory. In host memory a stack
/// runs under an `AllocationLimit`, so that allocations beyond the limit fail. In device memory the
/// device itself reports that a stack does not fit, unless the limit is given, which the estimate
/// then enforces. `attempted` is called before each attempt with its depth. Throws `AgreedError`
/// (usage) if more than `deepest_stack` layers per device would fit, or the stack cannot be divided
/// before the layer (see `Graph::cut`). Collective.
std::vector<record::StackRow> measure_stack(const backend::PlanOptions& options,
                                            const graph::Layer& layer,
                                            const backend::Backend& backend,
                                            comm::Communicator& world, const MemoryLimit& limit,
                                            const std::function<void(std::int64_t)>& attempted);

}  // namespace lockstep::study
