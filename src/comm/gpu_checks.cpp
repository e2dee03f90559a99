// SPDX-License-Identifier: BSD-3-Clause
#include "gpu_checks.hpp"

#include <fmt/format.h>

#include <vector>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
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

bool find_shared_gpus(Communicator& communicator, const std::string& gpu, bool is_allowed) {
  const GpuPlace own{communicator.host(), gpu, core::host_name()};
  const std::vector<GpuPlace> places = all_gather(communicator, own);
  const auto sharers = first_sharers(places);
  if (!sharers || is_allowed) return sharers.has_value();
  const GpuPlace& place = places[static_cast<std::size_t>(sharers->first)];
  throw AgreedError(
      core::ExitStatus::usage,
      fmt::format("ranks {} and {} on {} use the same GPU ({}); start at most one rank per "
                  "GPU and let each see its own, or allow sharing for a test",
                  sharers->first, sharers->second, place.host_name, place.gpu),
      sharers->second, communicator.rank());
}

void check_device_type(const core::GradientArray& gradients, const ReducerOptions& options) {
  if (gradients.type == options.gradient_type) return;
  core::fail(core::ExitStatus::usage,
             fmt::format("gradients on a GPU are communicated in the data type that they have: "
                         "they are {} and cannot be communicated as {}",
                         core::name(gradients.type), core::name(options.gradient_type)));
}

}  // namespace lockstep::comm
