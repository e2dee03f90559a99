// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/backend/backend.hpp"
#include "lockstep/core/meter/peak_memory.hpp"
#include "lockstep/graph/layer.hpp"
#include "lockstep/train/config.hpp"

// Memory of networks that consist of equal layers, on one device.
namespace lockstep::study {

/// Returns the configuration of a training plan on one device for the batch of the layer.
train::Config layer_config(const train::Config& config, const graph::Layer& layer);

/// Returns the memory of a training plan and its state in bytes, from shapes.
std::uint64_t estimate_bytes(const train::Config& config, const graph::Graph& graph,
                             const backend::Backend& backend);

/// Returns the bytes of the memory limit that are in use before the plan: those of this process if
/// the device uses host memory, else 0, because the limit is then the free memory of the device.
std::uint64_t base_bytes(const backend::Backend& backend);

/// Measures the increase of the memory in use since the construction of this object: its peak in
/// host memory, its value at the call of `bytes` in device memory.
class MemoryIncrease {
 public:
  explicit MemoryIncrease(const backend::Backend& backend);
  std::uint64_t bytes() const;

 private:
  const backend::Backend& backend_;
  std::optional<std::uint64_t> free_before_;
  std::uint64_t resident_before_ = 0;
  core::PeakMemory peak_;
};

}  // namespace lockstep::study
