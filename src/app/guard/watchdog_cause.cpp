// SPDX-License-Identifier: BSD-3-Clause
#include "watchdog_cause.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <vector>

namespace lockstep::app {

namespace {

using core::Activity;

/// Activities of a step in their order; a rank does not wait for other ranks in the first
/// `local_count`, except with synchronised batch norm, pipelines and parameter servers.
constexpr std::array step_activities{Activity::data_wait,        Activity::upload,
                                     Activity::forward,          Activity::backward,
                                     Activity::update,           Activity::exposed_communication,
                                     Activity::combining_results};
constexpr std::size_t local_count = 5;

std::size_t index_of(const RankStatus& rank) {
  return static_cast<std::size_t>(std::ranges::find(step_activities, rank.activity) -
                                  step_activities.begin());
}

bool computes(const RankStatus& rank) { return index_of(rank) < local_count; }

/// Orders activities by the time at which they begin in a run.
std::int64_t position(const RankStatus& rank) {
  if (rank.activity == Activity::mpi_finalize) return std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t activities_of_a_step = 16;
  return rank.step * activities_of_a_step + static_cast<std::int64_t>(index_of(rank));
}

bool same_activity(const RankStatus& a, const RankStatus& b) {
  return a.activity == b.activity && a.step == b.step;
}

std::string place(const RankStatus& rank) {
  const std::string activity = core::text_of(rank.activity);
  return rank.step > 0 ? fmt::format("{} of step {}", activity, rank.step) : activity;
}

std::string describe(const RankStatus& rank) {
  return fmt::format("rank {} on {} has been in {} without progress for {:.1f} s", rank.rank,
                     rank.host, place(rank), rank.idle_seconds);
}

std::string describe_silent(std::span<const RankStatus* const> silent) {
  constexpr std::size_t most = 4;
  std::vector<std::string> names;
  for (const RankStatus* rank : silent.first(std::min(most, silent.size())))
    names.push_back(fmt::format("rank {} on {}", rank->rank, rank->host));
  if (silent.size() > most) names.push_back(fmt::format("{} other ranks", silent.size() - most));
  return fmt::format("{} {} not answer (stopped, dead or unreachable)", fmt::join(names, ", "),
                     silent.size() == 1 ? "does" : "do");
}

/// Returns the cause among ranks that answer.
const RankStatus& find_cause(std::span<const RankStatus* const> ranks) {
  const auto idle_seconds = [](const RankStatus* rank) { return rank->idle_seconds; };
  const auto longest = [&](std::span<const RankStatus* const> among) {
    return *std::ranges::max_element(among, {}, idle_seconds);
  };
  const RankStatus& quickest = **std::ranges::min_element(ranks, {}, idle_seconds);
  const RankStatus& slowest = *longest(ranks);
  const auto is_idle = [&](const RankStatus& rank) {
    return rank.idle_seconds >= slowest.idle_seconds / 2;
  };
  std::vector<const RankStatus*> computing;
  std::ranges::copy_if(ranks, std::back_inserter(computing),
                       [&](const RankStatus* rank) { return computes(*rank) && is_idle(*rank); });
  if (!computing.empty()) return *longest(computing);
  if (!is_idle(quickest)) return quickest;
  for (const RankStatus* rank : ranks) {
    const auto equal = std::ranges::count_if(
        ranks, [&](const RankStatus* other) { return same_activity(*rank, *other); });
    if (2 * static_cast<std::size_t>(equal) <= ranks.size()) continue;
    std::vector<const RankStatus*> others;
    std::ranges::copy_if(ranks, std::back_inserter(others),
                         [&](const RankStatus* other) { return !same_activity(*rank, *other); });
    return *longest(others.empty() ? ranks : others);
  }
  return **std::ranges::max_element(ranks, {},
                                    [](const RankStatus* rank) { return position(*rank); });
}

}  // namespace

std::string describe_cause(std::span<const RankStatus> ranks) {
  std::vector<const RankStatus*> silent, answering;
  for (const RankStatus& rank : ranks) (rank.answers ? answering : silent).push_back(&rank);
  if (!silent.empty()) return describe_silent(silent);
  const RankStatus& cause = find_cause(answering);
  std::string text = describe(cause);
  const auto is_elsewhere = [&](const RankStatus* rank) { return !same_activity(*rank, cause); };
  const auto other = std::ranges::find_if(answering, is_elsewhere);
  if (other == answering.end()) {
    const bool is_shortest = std::ranges::none_of(
        answering, [&](const RankStatus* rank) { return rank->idle_seconds < cause.idle_seconds; });
    return text + (is_shortest ? ", and the other ranks wait for it" : ", longer than other ranks");
  }
  const auto count = std::ranges::count_if(
      answering, [&](const RankStatus* rank) { return same_activity(*rank, **other); });
  return text + (count == 1 ? fmt::format(", while rank {} on {} has been in {} for {:.1f} s",
                                          (*other)->rank, (*other)->host, place(**other),
                                          (*other)->idle_seconds)
                            : fmt::format(", while {} ranks are in {}", count, place(**other)));
}

}  // namespace lockstep::app
