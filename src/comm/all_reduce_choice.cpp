#include "all_reduce_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// Size of the timed array of float32 values: large enough for messages of full length between two
/// ranks (`PieceLayout`), small enough that every algorithm completes within half a second on a 1
/// Gbit/s link.
constexpr std::size_t timed_bytes = std::size_t{4} << 20;
constexpr int repeats = 3;

/// Returns why `wanted` is not available for these ranks and this data type.
std::string_view reason(const Communicator& communicator, AllReduceWay wanted) {
  const bool is_one_host = communicator.local_size() == communicator.size();
  switch (wanted) {
    case AllReduceWay::shared:
      return is_one_host ? "the ranks of this host cannot share memory"
                         : "it needs all ranks on one host";
    case AllReduceWay::two_level:
      return is_one_host ? "it needs ranks on several hosts"
                         : "it needs the same number of ranks, at least 2, on each host, and "
                           "memory that they can share";
    case AllReduceWay::ring:
    case AllReduceWay::mpi: return "it sends fp32 only";
    default: return "these ranks do not have it";
  }
}

[[noreturn]] void refuse(const Communicator& communicator, AllReduceWay wanted,
                         std::span<const AllReduceWay> ways) {
  std::vector<std::string_view> names;
  for (const AllReduceWay way : ways) names.push_back(name(way));
  fail_together(communicator, core::ExitStatus::usage,
                fmt::format("--all-reduce {} is not available: {}; choose among auto, {}",
                            name(wanted), reason(communicator, wanted), fmt::join(names, ", ")));
}

/// Returns the seconds of the fastest of `repeats` all-reduces; each takes as long as on its
/// slowest rank.
double seconds_of(Communicator& communicator, AllReduce& sum) {
  std::vector<double> seconds;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    communicator.barrier();
    const auto begin = Clock::now();
    sum.start();
    sum.finish();
    const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
    if (repeat > 0) seconds.push_back(taken);  // the first repeat establishes connections
  }
  communicator.maximum(seconds);
  return *std::ranges::min_element(seconds);
}

}  // namespace

AllReduceChoice choose_way(Communicator& communicator, std::span<float> values, core::DataType wire,
                           AllReduceWay wanted) {
  together(communicator, [&] { check_wire(wire); });
  const std::vector<AllReduceWay> ways = communicator.ways(values, wire);
  if (ways.empty()) return {};
  if (wanted != AllReduceWay::automatic) {
    if (std::ranges::find(ways, wanted) == ways.end()) refuse(communicator, wanted, ways);
    return {.way = wanted, .timed = {}, .timed_bytes = 0};
  }
  const std::span<float> part = values.first(std::min(values.size(), timed_bytes / sizeof(float)));
  AllReduceChoice choice{.way = ways.front(), .timed = {}, .timed_bytes = part.size_bytes()};
  for (const AllReduceWay way : ways) {
    const auto sum = communicator.make_all_reduce(part, wire, way);
    choice.timed.push_back({way, seconds_of(communicator, *sum)});
  }
  choice.way = std::ranges::min_element(choice.timed, {}, &WayTime::seconds)->way;
  return choice;
}

}  // namespace lockstep::comm
