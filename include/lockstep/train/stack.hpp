#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/backend/backend.hpp"
#include "lockstep/graph/layer.hpp"
#include "lockstep/record/run_file.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// Largest stack that is searched for.
inline constexpr std::int64_t deepest_stack = 10'000;

/// Finds the deepest stack of equal layers (`graph::stack_layers`) whose training fits in the
/// memory of a device: by the estimate from shapes first, then by running a forward and a backward
/// pass. The rows are the deepest stack that ran, with the times of its forward pass, and the first
/// that did not fit. With `config.stages` above 1 a row with status "estimated" follows: the
/// deepest stack over that many devices, each of which has the same memory and holds an equal part
/// of the layers, with the input of its part and the gradient of that.
///
/// `limit_bytes`: memory of the device, or of this process if the device uses host memory. In host
/// memory a stack runs under an `AllocationLimit`, so that allocations beyond the limit fail. In
/// device memory the device itself reports that a stack does not fit, unless `config.memory_limit`
/// is set, which the estimate then enforces. `attempted` is called before each attempt with its
/// depth. Throws `Error` (usage) if more than `deepest_stack` layers would fit.
std::vector<record::StackRow> measure_stack(const Config& config, const graph::Layer& layer,
                                            const backend::Backend& backend,
                                            std::uint64_t limit_bytes,
                                            const std::function<void(std::int64_t)>& attempted);

}  // namespace lockstep::train
