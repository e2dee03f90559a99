// SPDX-License-Identifier: BSD-3-Clause
#include "replica_policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/error.hpp"
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

namespace {

std::string not_finite(std::int64_t step, int rank) {
  return fmt::format(
      "the loss is not finite in step {} on rank {}; lower --lr, add --warmup-epochs, or start "
      "from the last checkpoint with a lower rate",
      step, rank);
}

}  // namespace

ReplicaPolicy::ReplicaPolicy(comm::ReducerKind reducer, comm::Communicator& data_parallel,
                             comm::Communicator& world)
    : is_independent_(reducer == comm::ReducerKind::none),
      data_parallel_(data_parallel),
      world_(world) {}

float ReplicaPolicy::gradient_scale() const {
  return is_independent_ ? 1 : 1 / static_cast<float>(data_parallel_.size());
}

StepTotals ReplicaPolicy::agree_on_step(const backend::BatchResult& result, StepRequests requests,
                                        std::int64_t step) {
  const bool is_finite = std::isfinite(result.loss_sum);
  if (is_independent_) {
    if (!is_finite) core::fail(core::ExitStatus::diverged, not_finite(step, data_parallel_.rank()));
    return {.loss_sum = result.loss_sum, .correct = result.correct, .images = result.images};
  }
  enum Value : std::size_t { loss, correct, images, stop, save, failed };
  std::array values{result.loss_sum,
                    static_cast<double>(result.correct),
                    static_cast<double>(result.images),
                    requests.stop ? 1.0 : 0.0,
                    requests.save ? 1.0 : 0.0,
                    is_finite ? 0.0 : 1.0};
  world_.sum(std::span<double>(values));
  if (values[failed] > 0) fail_as_not_finite(is_finite, step);
  return {.loss_sum = values[loss],
          .correct = static_cast<std::int64_t>(values[correct]),
          .images = static_cast<std::int64_t>(values[images]),
          .requests = {.stop = values[stop] > 0, .save = values[save] > 0}};
}

void ReplicaPolicy::require_equal(std::uint64_t parameter_hash, std::int64_t step) {
  if (!is_independent_) combined_hash(parameter_hash, step);
}

EpochAgreement ReplicaPolicy::agree_on_epoch(std::uint64_t parameter_hash, StepRequests requests,
                                             std::int64_t step) {
  if (!is_independent_)
    return {.parameter_hash = combined_hash(parameter_hash, step), .requests = {}};
  std::array counts{requests.stop ? 1.0 : 0.0, requests.save ? 1.0 : 0.0};
  data_parallel_.sum(std::span<double>(counts));
  return {.parameter_hash = {}, .requests = {.stop = counts[0] > 0, .save = counts[1] > 0}};
}

std::string ReplicaPolicy::combined_hash(std::uint64_t parameter_hash, std::int64_t step) {
  const int stages = world_.size() / data_parallel_.size();
  return require_equal_replicas(world_, stages, parameter_hash, step);
}

void ReplicaPolicy::fail_as_not_finite(bool is_finite, std::int64_t step) {
  const std::vector<int> are_finite = comm::all_gather(world_, is_finite ? 1 : 0);
  const auto first = std::ranges::find(are_finite, 0);
  const int rank = static_cast<int>(first - are_finite.begin());
  throw AgreedError(core::ExitStatus::diverged, not_finite(step, rank), rank, world_.rank());
}

}  // namespace lockstep::train
