// SPDX-License-Identifier: BSD-3-Clause
#include "gpu_sharing.hpp"

#include <fmt/format.h>

#include <vector>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/process/system.hpp"

namespace lockstep::comm {

std::optional<std::pair<int, int>> first_sharers(std::span<const GpuPlace> places) {
  for (std::size_t second = 1; second < places.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      if (places[first] == places[second])
        return std::pair(static_cast<int>(first), static_cast<int>(second));
    }
  }
  return std::nullopt;
}

GpuUse find_gpu_use(Communicator& communicator, const std::string& gpu, GpuUse allowed) {
  const GpuPlace own{communicator.host(), gpu, core::host_name()};
  const std::vector<GpuPlace> places = all_gather(communicator, own);
  const auto sharers = first_sharers(places);
  if (!sharers) return GpuUse::own;
  if (allowed == GpuUse::shared) return GpuUse::shared;
  const GpuPlace& place = places[static_cast<std::size_t>(sharers->first)];
  throw AgreedError(
      core::ExitStatus::usage,
      fmt::format("ranks {} and {} on {} use the same GPU ({}); start at most one rank per "
                  "GPU and let each see its own, or allow sharing for a test",
                  sharers->first, sharers->second, place.host_name, place.gpu),
      sharers->second, communicator.rank());
}

}  // namespace lockstep::comm
