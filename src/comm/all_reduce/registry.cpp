// SPDX-License-Identifier: BSD-3-Clause
#include "registry.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <limits>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

// One function per algorithm, defined in the file of the algorithm.
AllReduceEntry shared_memory_all_reduce();
AllReduceEntry hierarchical_all_reduce();
AllReduceEntry direct_all_reduce();
AllReduceEntry gather_scatter_all_reduce();
AllReduceEntry ring_all_reduce();
AllReduceEntry recursive_doubling_all_reduce();
AllReduceEntry mpi_all_reduce();

std::span<const AllReduceEntry> all_reduce_registry() {
  static const std::array entries{shared_memory_all_reduce(),
                                  hierarchical_all_reduce(),
                                  direct_all_reduce(),
                                  ring_all_reduce(),
                                  recursive_doubling_all_reduce(),
                                  gather_scatter_all_reduce(),
                                  mpi_all_reduce()};
  return entries;
}

const AllReduceEntry& find_all_reduce(AllReduceAlgorithm algorithm) {
  const auto entries = all_reduce_registry();
  const auto found = std::ranges::find(entries, algorithm, &AllReduceEntry::algorithm);
  core::check(found != entries.end(), "an all-reduce algorithm that is not registered");
  return *found;
}

std::string_view obstacle_of(const AllReduceEntry& entry, const AllReduceConditions& conditions) {
  if (entry.obstacle != nullptr) {
    const std::string_view obstacle = entry.obstacle(conditions);
    if (!obstacle.empty()) return obstacle;
  }
  const bool is_float32 = conditions.communication_type == core::DataType::float32;
  return entry.types == CommunicationTypes::float32 && !is_float32 ? "it sends fp32 only" : "";
}

std::vector<AllReduceAlgorithm> available_algorithms(AllReduceResources& resources,
                                                     std::span<const float> values,
                                                     core::DataType communication_type) {
  std::vector<AllReduceAlgorithm> available;
  if (resources.ranks().size() == 1) return available;
  const bool is_shared = resources.place_of(values).memory != nullptr;
  const AllReduceConditions conditions{.is_one_host = resources.is_one_host(),
                                       .is_shared = minimum(resources.ranks(), is_shared),
                                       .communication_type = communication_type};
  for (const AllReduceEntry& entry : all_reduce_registry())
    if (obstacle_of(entry, conditions).empty()) available.push_back(entry.algorithm);
  return available;
}

std::unique_ptr<AllReduce> make_all_reduce(AllReduceResources& resources, std::span<float> values,
                                           core::DataType communication_type,
                                           AllReduceAlgorithm algorithm) {
  check_communication_type(communication_type);
  return find_all_reduce(algorithm).make(resources, values, communication_type);
}

std::span<const core::NamedValue<AllReduceAlgorithm>> named_values(AllReduceAlgorithm) {
  static const auto values = [] {
    std::vector<core::NamedValue<AllReduceAlgorithm>> table{{AllReduceAlgorithm::automatic,
                                                             AllReduceAlgorithm::automatic.name(),
                                                             "the fastest by timing at the start"}};
    for (const AllReduceEntry& entry : all_reduce_registry()) {
      table.push_back({entry.algorithm, entry.algorithm.name(), entry.help});
    }
    return table;
  }();
  return values;
}

core::DataType supported_type(AllReduceAlgorithm algorithm, core::DataType requested) {
  const bool converts =
      std::ranges::any_of(all_reduce_registry(), [&](const AllReduceEntry& entry) {
        return entry.algorithm == algorithm && entry.types == CommunicationTypes::any;
      });
  return converts ? requested : core::DataType::float32;
}

bool shares_memory(AllReduceAlgorithm algorithm) {
  return std::ranges::any_of(all_reduce_registry(), [&](const AllReduceEntry& entry) {
    const bool is_possible =
        algorithm == AllReduceAlgorithm::automatic || algorithm == entry.algorithm;
    return is_possible && entry.memory == SharedMemoryUse::yes;
  });
}

std::size_t all_reduce_workspace_bytes(AllReduceAlgorithm algorithm, std::size_t elements,
                                       int ranks, core::DataType communication_type) {
  std::size_t most = 0;
  for (const AllReduceEntry& entry : all_reduce_registry()) {
    const bool is_possible = algorithm == AllReduceAlgorithm::automatic
                                 ? entry.selection == Selection::timed
                                 : algorithm == entry.algorithm;
    if (!is_possible || entry.workspace_bytes == nullptr) continue;
    most = std::max(most, entry.workspace_bytes(elements, ranks, communication_type));
  }
  return most;
}

void check_communication_type(core::DataType type) {
  if (type == core::DataType::float32 || type == core::DataType::bfloat16) return;
  core::fail(core::ExitStatus::usage,
             fmt::format("gradients cannot be communicated as {} here (its range is too small for "
                         "sums without scaling); use fp32 or bf16",
                         core::name(type)));
}

Traffic unknown_traffic() {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  return {.sent_bytes = unknown, .received_bytes = unknown};
}

void AllReduce::finish() {
  // If ranks share a core, the rank that this one waits for must be able to run.
  while (!progress()) sched_yield();
}

}  // namespace lockstep::comm
