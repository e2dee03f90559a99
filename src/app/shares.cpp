// SPDX-License-Identifier: BSD-3-Clause
#include "shares.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/process/processors.hpp"

namespace lockstep::app {

namespace {

/// Returns the indices of the ranks on the host of `rank` that may use the same processors.
std::vector<std::size_t> sharers_of(const std::vector<record::RankInfo>& ranks, int rank) {
  const record::RankInfo& own = ranks.at(static_cast<std::size_t>(rank));
  std::vector<std::size_t> sharers;
  for (std::size_t other = 0; other < ranks.size(); ++other) {
    if (ranks[other].host == own.host && ranks[other].cpu_list == own.cpu_list) {
      sharers.push_back(other);
    }
  }
  return sharers;
}

/// Returns the first two ranks of one host for which `shares(first, second)` is true.
template <class Shares>
std::optional<std::pair<std::size_t, std::size_t>> first_pair_of_a_host(
    const std::vector<record::RankInfo>& ranks, Shares shares) {
  for (std::size_t second = 1; second < ranks.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      if (ranks[first].host == ranks[second].host && shares(first, second)) {
        return std::pair{first, second};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

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

int fair_threads(const std::vector<record::RankInfo>& ranks, int rank) {
  const record::RankInfo& own = ranks.at(static_cast<std::size_t>(rank));
  const auto cores = core::processors_in(own.core_list).size();
  return std::max(1, static_cast<int>(cores / sharers_of(ranks, rank).size()));
}

int compiler_threads(const std::vector<record::RankInfo>& ranks, int rank,
                     const std::vector<core::Limit>& quotas, const Domains& domains) {
  const record::RankInfo& own = ranks.at(static_cast<std::size_t>(rank));
  const auto processors = core::processors_in(own.cpu_list).size();
  int threads = static_cast<int>(processors / sharers_of(ranks, rank).size());
  if (!quotas.empty())
    threads = std::min(threads, static_cast<int>(core::smallest_share(quotas, domains).value));
  return std::max(1, threads);
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

std::set<int> share_of_processors(const std::vector<record::RankInfo>& ranks,
                                  const std::vector<int>& threads, int rank,
                                  const std::function<int(int)>& core_of) {
  const std::vector<std::size_t> sharers = sharers_of(ranks, rank);
  if (sharers.size() < 2) return {};
  const record::RankInfo& own = ranks.at(static_cast<std::size_t>(rank));
  const std::set<int> all_cores = core::processors_in(own.core_list);
  const std::vector<int> cores(all_cores.begin(), all_cores.end());
  const auto first_core = [&](std::size_t place) {
    return static_cast<std::ptrdiff_t>(place * cores.size() / sharers.size());
  };
  std::set<int> part;
  for (std::size_t place = 0; place < sharers.size(); ++place) {
    const auto first = first_core(place), last = first_core(place + 1);
    if (threads.at(sharers[place]) > last - first) return {};
    if (sharers[place] == static_cast<std::size_t>(rank)) {
      part.insert(cores.begin() + first, cores.begin() + last);
    }
  }
  std::set<int> share = core::processors_in(own.cpu_list);
  std::erase_if(share, [&](int processor) { return !part.contains(core_of(processor)); });
  return share;
}

std::string oversubscription(const std::vector<record::RankInfo>& ranks,
                             const std::vector<int>& threads) {
  struct Host {
    std::string name;
    std::set<int> processors, cores;
    int threads = 0;
  };
  std::map<int, Host> hosts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Host& host = hosts[ranks[rank].host];
    host.name = ranks[rank].hostname;
    host.processors.merge(core::processors_in(ranks[rank].cpu_list));
    host.cores.merge(core::processors_in(ranks[rank].core_list));
    host.threads += threads.at(rank);
  }
  for (const auto& [index, host] : hosts) {
    for (const auto& [places, place] : {std::pair{host.processors.size(), "processor"},
                                        std::pair{host.cores.size(), "physical core"}}) {
      if (places == 0 || host.threads <= static_cast<int>(places)) continue;
      return fmt::format(
          "{} threads share {} {}{} on {}, so measured times are too long; use fewer ranks on this "
          "host, a smaller --threads or another process binding",
          host.threads, places, place, places == 1 ? "" : "s", host.name);
    }
  }
  return "";
}

std::string common_places(const std::vector<record::RankInfo>& ranks,
                          const std::vector<bool>& binds) {
  std::vector<std::set<int>> places;
  for (const auto& rank : ranks) places.push_back(core::processors_in(rank.cpu_list));
  const auto pair = first_pair_of_a_host(ranks, [&](std::size_t first, std::size_t second) {
    return binds.at(first) && binds.at(second) &&
           std::ranges::any_of(places[first], [&](int p) { return places[second].contains(p); });
  });
  if (!pair) return "";
  return fmt::format(
      "OpenMP binds the threads of ranks {} and {} to the same processors on {}, so measured times "
      "may be too long; unset OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY and KMP_AFFINITY, or "
      "let the launcher bind each rank to its own processors",
      pair->first, pair->second, ranks[pair->first].hostname);
}

std::string shared_gpu(const std::vector<record::RankInfo>& ranks) {
  const auto pair = first_pair_of_a_host(ranks, [&](std::size_t first, std::size_t second) {
    const std::string& device = ranks[first].device_uuid;
    return !device.empty() && device == ranks[second].device_uuid;
  });
  if (!pair) return "";
  return fmt::format(
      "ranks {} and {} share a GPU on {}, so measured times are too long; start at most one rank "
      "per GPU",
      pair->first, pair->second, ranks[pair->first].hostname);
}

}  // namespace lockstep::app
