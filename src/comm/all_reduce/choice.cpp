// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/timeline.hpp"
#include "registry.hpp"

namespace lockstep::comm {

namespace {

/// Size of the timed array of float32 values: large enough for messages of full length between two
/// ranks (`PieceLayout`), small enough that every algorithm completes within half a second on a 1
/// Gbit/s link.
constexpr std::size_t timed_bytes = std::size_t{4} << 20;
constexpr int repeats = 3;

/// Returns why `requested` is not available, for an algorithm that was found to be unavailable. If
/// it needs shared memory, the reason is the number of hosts, or else that the array is not shared.
std::string_view reason(const AllReduceResources& resources, core::DataType communication_type,
                        AllReduceAlgorithm requested) {
  return obstacle_of(find_all_reduce(requested), {.is_one_host = resources.is_one_host(),
                                                  .communication_type = communication_type});
}

[[noreturn]] void refuse(const AllReduceResources& resources, core::DataType communication_type,
                         AllReduceAlgorithm requested,
                         std::span<const AllReduceAlgorithm> available) {
  std::vector<std::string_view> names;
  for (const AllReduceAlgorithm algorithm : available) names.push_back(algorithm.name());
  // A reducer may have requested the algorithm; then another one cannot be chosen.
  const bool is_type = supported_type(requested, communication_type) != communication_type;
  const std::string remedy = is_type ? "use --gradient-dtype fp32"
                                     : fmt::format("choose among auto, {}", fmt::join(names, ", "));
  fail_together(
      resources.ranks(), core::ExitStatus::usage,
      fmt::format("the all-reduce algorithm {} is not available: {}; {}", requested.name(),
                  reason(resources, communication_type, requested), remedy));
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
    return {.algorithm = requested, .timed = {}, .timed_bytes = 0};
  }
  const std::span<float> part = values.first(std::min(values.size(), timed_bytes / sizeof(float)));
  AllReduceChoice choice{.algorithm = {}, .timed = {}, .timed_bytes = part.size_bytes()};
  for (const AllReduceAlgorithm algorithm : available) {
    if (find_all_reduce(algorithm).selection != Selection::timed) continue;
    const auto sum = make_all_reduce(resources, part, communication_type, algorithm);
    choice.timed.push_back({algorithm, seconds_of(communicator, *sum)});
  }
  choice.algorithm = std::ranges::min_element(choice.timed, {}, &AlgorithmTime::seconds)->algorithm;
  return choice;
}

}  // namespace lockstep::comm
