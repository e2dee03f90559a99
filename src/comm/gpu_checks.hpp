// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "lockstep/comm/gradient_transport.hpp"

// Checks of the transports for gradients in GPU memory, which need no GPU themselves.
namespace lockstep::comm {

/// Identifies the GPU on which a rank computes.
struct GpuPlace {
  int host = 0;     ///< `Communicator::host`
  std::string gpu;  ///< UUID of the GPU, or of the part of one (MIG)
  std::string host_name = {};

  static auto fields(auto& self) { return std::tie(self.host, self.gpu, self.host_name); }
  bool operator==(const GpuPlace&) const = default;
};

/// Returns the first two ranks that use the same GPU; empty if there are none.
std::optional<std::pair<int, int>> first_sharers(std::span<const GpuPlace> places);

/// Returns whether any ranks share a GPU. `gpu`: `DeviceQueue::uuid` of this rank. Throws
/// `AgreedError` (usage), naming two ranks, if they do and `is_allowed` is false. Collective: all
/// ranks must call this.
bool find_shared_gpus(Communicator& communicator, const std::string& gpu, bool is_allowed);

/// Throws `Error` (usage) if the communication data type is not the data type of the gradients in
/// device memory, which transports of devices require.
void check_device_type(const core::GradientArray& gradients, const ReducerOptions& options);

}  // namespace lockstep::comm
