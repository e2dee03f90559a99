// SPDX-License-Identifier: BSD-3-Clause
#include "registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <limits>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/timeline.hpp"

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
  const AllReduceEntry& entry = find_all_reduce(algorithm);
  if (entry.schedule == nullptr) return entry.make(resources, values, communication_type);
  const MessageRoute route = resources.route();
  return make_scheduled_all_reduce(route, values,
                                   entry.schedule(values.size(), route.rank, route.ranks));
}

namespace {

/// Size of the timed array of float32 values: large enough for messages of full length between two
/// ranks (`PieceLayout`), small enough that every algorithm completes within half a second on a 1
/// Gbit/s link.
constexpr std::size_t timed_bytes = std::size_t{4} << 20;
constexpr int repeats = 3;

[[noreturn]] void refuse(const AllReduceResources& resources, core::DataType communication_type,
                         AllReduceAlgorithm requested,
                         std::span<const AllReduceAlgorithm> available) {
  // If the algorithm needs shared memory, the reason is the number of hosts, or else that the array
  // is not shared.
  const std::string_view reason = obstacle_of(
      find_all_reduce(requested),
      {.is_one_host = resources.is_one_host(), .communication_type = communication_type});
  std::vector<std::string_view> names;
  for (const AllReduceAlgorithm algorithm : available) names.push_back(algorithm.name());
  // A reducer may have requested the algorithm; then another one cannot be chosen.
  const bool is_type = supported_type(requested, communication_type) != communication_type;
  const std::string remedy = is_type ? "use --gradient-dtype fp32"
                                     : fmt::format("choose among auto, {}", fmt::join(names, ", "));
  fail_together(resources.ranks(), core::ExitStatus::usage,
                fmt::format("the all-reduce algorithm {} is not available: {}; {}",
                            requested.name(), reason, remedy));
}

/// Returns the seconds of the fastest of `repeats` all-reduces; each takes as long as on its
/// slowest rank.
double seconds_of(Communicator& communicator, AllReduce& sum) {
  std::vector<double> seconds;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    communicator.barrier();
    const double begin = core::host_seconds();
    sum.start();
    sum.finish();
    const double taken = core::host_seconds() - begin;
    if (repeat > 0) seconds.push_back(taken);  // the first repeat establishes connections
  }
  communicator.maximum(seconds);
  return *std::ranges::min_element(seconds);
}

/// Returns the bound of `all_reduce_memory_bytes` for one algorithm.
std::size_t memory_of(const AllReduceEntry& entry, std::size_t elements, std::size_t ranks,
                      std::size_t local_ranks, core::DataType communication_type) {
  std::size_t workspace = 0;
  if (entry.workspace_bytes != nullptr)
    workspace = entry.workspace_bytes(elements, ranks, communication_type);
  // Rank 0, or the odd rank of a pair of ranks, receives most.
  for (std::size_t rank = 0; entry.schedule != nullptr && rank < std::min<std::size_t>(ranks, 2);
       ++rank)
    workspace = std::max(workspace, entry.schedule(elements, rank, ranks).workspace_bytes());
  // A rank accesses its part of the arrays of the other ranks on its host.
  const std::size_t shared =
      entry.shares_memory ? elements * sizeof(float) * (local_ranks - 1) / local_ranks : 0;
  return workspace + shared;
}

}  // namespace

AllReduceChoice choose_algorithm(AllReduceResources& resources, std::span<float> values,
                                 core::DataType communication_type, AllReduceAlgorithm requested) {
  Communicator& communicator = resources.ranks();
  together(communicator, [&] { check_communication_type(communication_type); });
  const auto available = available_algorithms(resources, values, communication_type);
  if (available.empty()) return {};
  if (requested != AllReduceAlgorithm::automatic) {
    if (std::ranges::find(available, requested) == available.end())
      refuse(resources, communication_type, requested, available);
    return {.algorithm = requested};
  }
  const std::span<float> part = values.first(std::min(values.size(), timed_bytes / sizeof(float)));
  AllReduceChoice choice{.timed_bytes = part.size_bytes()};
  for (const AllReduceAlgorithm algorithm : available) {
    if (!find_all_reduce(algorithm).is_timed) continue;
    const auto sum = make_all_reduce(resources, part, communication_type, algorithm);
    choice.timed.push_back({algorithm, seconds_of(communicator, *sum)});
  }
  choice.algorithm = std::ranges::min_element(choice.timed, {}, &AlgorithmTime::seconds)->algorithm;
  return choice;
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

std::size_t all_reduce_memory_bytes(AllReduceAlgorithm algorithm, std::size_t elements, int ranks,
                                    int local_ranks, core::DataType communication_type) {
  const AllReduceConditions conditions{.is_one_host = local_ranks == ranks,
                                       .is_shared = local_ranks > 1,
                                       .communication_type = communication_type};
  std::size_t most = 0;
  for (const AllReduceEntry& entry : all_reduce_registry()) {
    const bool is_possible = algorithm == AllReduceAlgorithm::automatic
                                 ? entry.is_timed && obstacle_of(entry, conditions).empty()
                                 : algorithm == entry.algorithm;
    if (!is_possible) continue;
    most = std::max(most, memory_of(entry, elements, static_cast<std::size_t>(ranks),
                                    static_cast<std::size_t>(local_ranks), communication_type));
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
