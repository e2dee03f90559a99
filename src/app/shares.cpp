#include "shares.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <sstream>

#include "binding.hpp"
#include "lockstep/core/format.hpp"

namespace lockstep::app {

Domains gather_domains(comm::Communicator& communicator, const std::vector<core::Limit>& limits) {
  std::string own = fmt::format("{}", communicator.host());
  for (const core::Limit& limit : limits) own += '\n' + limit.domain;
  Domains all;
  for (const std::string& text : communicator.all_gather(own)) {
    std::istringstream lines(text);
    std::vector<std::string>& domains = all.emplace_back();
    std::string host;
    std::getline(lines, host);
    if (host != fmt::format("{}", communicator.host())) continue;
    for (std::string domain; std::getline(lines, domain);) domains.push_back(domain);
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
