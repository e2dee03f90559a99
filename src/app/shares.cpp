// SPDX-License-Identifier: BSD-3-Clause
#include "shares.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "binding.hpp"
#include "lockstep/comm/messages.hpp"
#include "lockstep/core/format.hpp"

namespace lockstep::app {

Domains gather_domains(comm::Communicator& communicator, const std::vector<core::Limit>& limits) {
  std::pair<int, std::vector<std::string>> own{communicator.host(), {}};
  for (const core::Limit& limit : limits) own.second.push_back(limit.domain);
  Domains all;
  for (auto& [host, domains] : comm::all_gather(communicator, own)) {
    all.emplace_back();
    if (host == communicator.host()) all.back() = std::move(domains);
  }
  return all;
}

ThreadCount default_threads(const std::vector<record::RankInfo>& ranks, int rank,
                            const ThreadBounds& bounds) {
  ThreadCount count{fair_threads(ranks, rank), std::string(cores_per_rank)};
  if (bounds.requested > 0) {
    count = {bounds.requested, "OMP_NUM_THREADS"};
  } else if (!bounds.quotas.empty()) {
    const core::Limit share = core::smallest_share(bounds.quotas, bounds.domains);
    const int threads = std::max(1, static_cast<int>(share.value));
    if (threads < count.threads) count = {threads, fmt::format("CPU quota of {}", share.source)};
  }
  if (count.threads > bounds.limit) count = {bounds.limit, "OMP_THREAD_LIMIT"};
  return count;
}

std::string exceeded_quota(const std::vector<core::Limit>& quotas, const Domains& domains,
                           const std::vector<int>& threads) {
  for (const core::Limit& quota : quotas) {
    int sharers = 0;
    for (std::size_t rank = 0; rank < domains.size(); ++rank) {
      if (std::ranges::find(domains[rank], quota.domain) != domains[rank].end())
        sharers += threads.at(rank);
    }
    if (sharers <= quota.value) continue;
    return fmt::format(
        "{} threads share a CPU quota of {} processors ({}), so measured times are too long; use a "
        "smaller --threads or fewer ranks, or raise the quota",
        sharers, core::format_fixed(quota.value, 2), quota.source);
  }
  return "";
}

}  // namespace lockstep::app
