// SPDX-License-Identifier: BSD-3-Clause
#include "profile_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/study/roofline.hpp"

namespace lockstep::study {

void OperationSums::add(std::span<const train::OperationTime> times) {
  for (const train::OperationTime& time : times) {
    const auto [place, is_new] = places_.try_emplace(time.key, sums_.size());
    if (is_new) sums_.push_back({.key = time.key});
    OperationSum& sum = sums_[place->second];
    sum.calls += 1;
    sum.seconds += time.end - time.begin;
  }
}

record::ProfiledOperation profile_row(const OperationSum& sum, std::int64_t steps,
                                      const graph::Graph& graph, const OperationWorks& works) {
  const auto& [node, phase] = sum.key;
  const auto count = static_cast<double>(steps);
  OperationWork work = works.of(sum.key);
  return {.name = node == train::no_node ? std::string(phase) : graph.node(node).name,
          .what = std::move(work.what),
          .phase = std::string(phase),
          .implementation = std::move(work.implementation),
          .ceiling = "none",
          .calls = static_cast<double>(sum.calls) / count,
          .flops = work.flops,
          .bytes = work.bytes,
          .seconds = {sum.seconds / count}};
}

void apply_ceilings(const backend::Ceilings& measured, record::Profile& profile) {
  if (!(measured.flops_per_second > 0) || !(measured.bytes_per_second > 0)) return;
  profile.flops_per_second = measured.flops_per_second;
  profile.bytes_per_second = measured.bytes_per_second;
  profile.ceiling_source = "measured: a matrix product of " + measured.product +
                           ", and a copy that is too large for the caches";
  std::string faster;
  for (const auto& row : profile.operations) {
    const double rate = row.flops / row.seconds[0];
    if (!(rate > profile.flops_per_second)) continue;
    profile.flops_per_second = rate;
    faster = fmt::format("; {} ({}) was faster than the product", row.name, row.phase);
  }
  profile.ceiling_source += faster;
  for (auto& row : profile.operations) {
    if (row.flops == 0 && row.bytes == 0) continue;
    const double of_flops = row.flops / profile.flops_per_second;
    const double of_bytes = row.bytes / profile.bytes_per_second;
    if (of_bytes > row.seconds[0]) {
      row.ceiling = "cache";
      row.bound_seconds = of_flops;
    } else {
      row.ceiling = of_bytes > of_flops ? "memory" : "compute";
      row.bound_seconds = std::max(of_bytes, of_flops);
    }
    row.bound_seconds = std::min(row.bound_seconds, row.seconds[0]);  // rounding errors
  }
}

std::vector<OperationGroup> group_operations(const record::Profile& profile) {
  struct Group : OperationGroup {
    double longest = -1;  ///< time of the longest operation in seconds
  };
  std::map<std::tuple<std::string, std::string, std::string>, Group> groups;
  for (const record::ProfiledOperation& operation : profile.operations) {
    Group& group = groups[{operation.what, operation.phase, operation.implementation}];
    if (operation.seconds[0] > group.longest) {
      group.longest = operation.seconds[0];
      group.ceiling = operation.ceiling;
    }
    group.calls += operation.calls;
    group.flops += operation.flops;
    group.bytes += operation.bytes;
    group.seconds += operation.seconds[0];
    group.bound_seconds += operation.bound_seconds;
  }
  std::vector<OperationGroup> sorted;
  for (auto& [key, group] : groups) {
    std::tie(group.what, group.phase, group.implementation) = key;
    sorted.push_back(std::move(group));
  }
  std::ranges::stable_sort(sorted, std::greater(), &OperationGroup::seconds);
  return sorted;
}

}  // namespace lockstep::study
