// SPDX-License-Identifier: BSD-3-Clause
#include "layer_memory.hpp"

#include "lockstep/core/process/system.hpp"
#include "lockstep/train/plan_options.hpp"

namespace lockstep::study {

namespace {

std::uint64_t difference(std::uint64_t large, std::uint64_t small) {
  return large > small ? large - small : 0;
}

}  // namespace

train::Config layer_config(const train::Config& config, const graph::Layer& layer) {
  train::Config result = config;
  result.batch_per_rank = result.global_batch = layer.batch;
  return result;
}

std::uint64_t estimate_bytes(const train::Config& config, const graph::Graph& graph,
                             const backend::Backend& backend) {
  return backend.least_memory(graph, train::training_options(config, {}, nullptr, 0, 1)).total();
}

std::uint64_t base_bytes(const backend::Backend& backend) {
  return backend.device().available_memory() ? 0 : core::resident_memory().now;
}

MemoryIncrease::MemoryIncrease(const backend::Backend& backend)
    : backend_(backend), free_before_(backend.device().available_memory()) {
  resident_before_ = core::resident_memory().now;
  peak_.begin_interval();
}

std::uint64_t MemoryIncrease::bytes() const {
  if (free_before_) return difference(*free_before_, *backend_.device().available_memory());
  return difference(peak_.interval(), resident_before_);
}

}  // namespace lockstep::study
