// SPDX-License-Identifier: BSD-3-Clause
#include "replica_hash.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep::train {

namespace {

/// The hash of a rank, and where the rank is.
struct RankHash {
  int rank = 0;
  std::uint64_t hash = 0;
  std::string host;

  static auto fields(auto& self) { return std::tie(self.rank, self.hash, self.host); }
};

std::string list(std::span<const RankHash> ranks) {
  constexpr std::size_t most = 8;
  std::vector<std::string> names;
  for (const RankHash& rank : ranks.first(std::min(most, ranks.size())))
    names.push_back(fmt::format("rank {} on {} (hash {:016x})", rank.rank, rank.host, rank.hash));
  if (ranks.size() > most) names.push_back(fmt::format("{} others", ranks.size() - most));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Describes how the replicas of a stage differ; empty if they are equal.
std::string describe_difference(const std::vector<RankHash>& replicas) {
  std::map<std::uint64_t, std::size_t> counts;
  for (const RankHash& replica : replicas) ++counts[replica.hash];
  if (counts.size() == 1) return {};
  for (const auto& [hash, count] : counts) {
    if (2 * count <= replicas.size()) continue;
    std::vector<RankHash> others;
    std::ranges::copy_if(replicas, std::back_inserter(others),
                         [&](const RankHash& replica) { return replica.hash != hash; });
    return fmt::format("the parameters of {} differ from those of {} other ranks (hash {:016x})",
                       list(others), count, hash);
  }
  return fmt::format("the parameters of {} differ, and no majority shows which are wrong",
                     list(replicas));
}

}  // namespace

std::string require_equal_replicas(comm::Communicator& world, int stages, std::uint64_t hash,
                                   std::int64_t step) {
  const RankHash own{world.rank(), hash, core::host_name()};
  const std::vector<RankHash> ranks = comm::all_gather(world, own);
  const auto count = static_cast<std::size_t>(stages);
  std::uint64_t sum = 0;
  for (std::size_t stage = 0; stage < count; ++stage) {
    std::vector<RankHash> replicas;
    for (std::size_t rank = stage; rank < ranks.size(); rank += count)
      replicas.push_back(ranks[rank]);
    if (const std::string difference = describe_difference(replicas); !difference.empty()) {
      fail_together(
          world, core::ExitStatus::internal,
          fmt::format("the replicas have drifted apart after step {}: {}; suspect the memory or "
                      "network of their hosts, and resume from a checkpoint",
                      step, difference));
    }
    sum += replicas.front().hash;
  }
  return fmt::format("{:016x}", sum);
}

}  // namespace lockstep::train
