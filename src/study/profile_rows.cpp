#include "profile_rows.hpp"

#include <algorithm>
#include <utility>

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

std::vector<record::ProfiledOperation> profile_rows(const OperationSums& sums, std::int64_t steps,
                                                    const graph::Graph& graph,
                                                    const OperationWorks& works) {
  std::vector<record::ProfiledOperation> rows;
  const auto count = static_cast<double>(steps);
  for (const OperationSum& sum : sums.all()) {
    const auto& [node, phase] = sum.key;
    OperationWork work = works.of(sum.key);
    rows.push_back({.name = node == train::no_node ? std::string(phase) : graph.node(node).name,
                    .what = std::move(work.what),
                    .phase = std::string(phase),
                    .implementation = std::move(work.implementation),
                    .ceiling = "none",
                    .calls = static_cast<double>(sum.calls) / count,
                    .flops = work.flops,
                    .bytes = work.bytes,
                    .seconds = {sum.seconds / count}});
  }
  return rows;
}

void apply_ceilings(const backend::Ceilings& measured, record::Profile& profile) {
  profile.flops_per_second = measured.flops_per_second;
  profile.bytes_per_second = measured.bytes_per_second;
  if (!(measured.flops_per_second > 0) || !(measured.bytes_per_second > 0)) return;
  for (const auto& row : profile.operations)
    profile.flops_per_second = std::max(profile.flops_per_second, row.flops / row.seconds[0]);
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
  }
}

}  // namespace lockstep::study
