// SPDX-License-Identifier: BSD-3-Clause
#include "hierarchical.hpp"

namespace lockstep::comm {

AllReduceEntry hierarchical_all_reduce() {
  return {
      .algorithm = AllReduceAlgorithm::hierarchical,
      .help = "shared-memory within hosts, direct between hosts",
      .types = CommunicationTypes::any,
      .memory = SharedMemoryUse::yes,
      .obstacle = [](const AllReduceConditions& conditions) -> std::string_view {
        if (conditions.is_one_host) return "it needs ranks on several hosts";
        if (conditions.is_shared) return "";
        return "it needs the same number of ranks, at least 2, on each host, and memory that they "
               "can share";
      },
      .workspace_bytes = direct_workspace_bytes,
      .make =
          [](AllReduceResources& resources, std::span<float> values,
             core::DataType communication_type) {
            return make_shared_memory_all_reduce(resources, values, [&](std::span<float> part) {
              return make_direct_all_reduce(resources.route_between_hosts(), part,
                                            communication_type);
            });
          }};
}

}  // namespace lockstep::comm
