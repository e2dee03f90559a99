#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// The GPU that a rank computes on.
struct GpuPlace {
  int host = 0;     ///< `Communicator::host`
  std::string gpu;  ///< its address on the host's PCI bus: "0000:1B:00.0"

  bool operator==(const GpuPlace&) const = default;
};

enum class GpuUse {
  own,     ///< every rank has a GPU of its own
  shared,  ///< somewhere two ranks use one
};

/// The first two ranks that use the same GPU.
std::optional<std::pair<int, int>> first_sharers(std::span<const GpuPlace> places);

/// How the ranks use their GPUs; `gpu` is the bus address of this rank's. Throws `AgreedError`
/// (usage), naming two ranks, if they share a GPU and `allowed` is `own`. Collective.
GpuUse find_gpu_use(Communicator& communicator, const std::string& gpu, GpuUse allowed);

}  // namespace lockstep::comm
