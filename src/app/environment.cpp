// SPDX-License-Identifier: BSD-3-Clause
#include "environment.hpp"

#include <fmt/format.h>

#include <limits>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/format.hpp"
#include "lockstep/core/process/limits.hpp"
#include "lockstep/core/process/openmp.hpp"
#include "lockstep/core/process/processors.hpp"

namespace lockstep::app {

namespace {

/// Adds the limits, or one fact "none" if there are none.
template <class Format>
void add_limits(std::vector<Fact>& facts, const std::string& name,
                const std::vector<core::Limit>& limits, const std::string& sources, Format format) {
  for (const core::Limit& limit : limits)
    facts.push_back({name, format(limit.value), limit.source});
  if (limits.empty()) facts.push_back({name, "none", sources});
}

}  // namespace

std::vector<Fact> environment_facts(const Job& job, int rank, const MemoryLimit& share) {
  const record::RankInfo& own = job.ranks.at(static_cast<std::size_t>(rank));
  const int openmp_limit = core::openmp_thread_limit();
  const bool is_bound = core::openmp_binds_threads();
  const auto bytes = [](double value) { return core::format_bytes(value); };
  const auto count = [](double value) { return fmt::format("{:.0f}", value); };
  std::vector<Fact> facts{
      {"launcher", comm::launcher_of_process().value_or("none"), "environment variables"},
      {"processors", own.cpu_list,
       is_bound ? "OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY" : "sched_getaffinity"},
      {"physical cores", own.core_list, "/sys/devices/system/cpu/cpu*/topology"},
  };
  add_limits(facts, "CPU quota", core::processor_quotas(), "/proc/self/cgroup", [](double value) {
    return fmt::format("{} processors", core::format_fixed(value, 2));
  });
  facts.push_back({"threads", fmt::format("{}", job.config.device.threads), job.threads_reason});
  facts.push_back(
      {"OpenMP thread limit",
       openmp_limit < std::numeric_limits<int>::max() ? fmt::format("{}", openmp_limit) : "none",
       "OMP_THREAD_LIMIT"});
  add_limits(facts, "thread limit", core::thread_limits(), "ulimit -u, /proc/self/cgroup", count);
  add_limits(facts, "memory limit", core::memory_limits(), "/proc/meminfo", bytes);
  facts.push_back({"memory per rank", bytes(static_cast<double>(share.bytes)), share.source});
  return facts;
}

}  // namespace lockstep::app
