// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// Identifies the GPU on which a rank computes.
struct GpuPlace {
  int host = 0;     ///< `Communicator::host`
  std::string gpu;  ///< UUID of the GPU, or of the part of one (MIG)
  std::string host_name = {};

  static auto fields(auto& self) { return std::tie(self.host, self.gpu, self.host_name); }
  bool operator==(const GpuPlace&) const = default;
};

/// Whether ranks share GPUs.
enum class GpuUse {
  own,     ///< every rank has a separate GPU
  shared,  ///< at least two ranks use the same GPU
};

/// Returns the first two ranks that use the same GPU; empty if there are none.
std::optional<std::pair<int, int>> first_sharers(std::span<const GpuPlace> places);

/// Returns whether any ranks share a GPU. `gpu`: `DeviceQueue::uuid` of this rank. Throws
/// `AgreedError` (usage), naming two ranks, if they share a GPU and `allowed` is `own`. Collective:
/// all ranks must call this.
GpuUse find_gpu_use(Communicator& communicator, const std::string& gpu, GpuUse allowed);

}  // namespace lockstep::comm
