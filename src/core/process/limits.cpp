// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/limits.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>

#include "control_groups.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/system.hpp"

namespace lockstep::core {

namespace {

namespace fs = std::filesystem;

// Version 1 represents "no limit" by the largest multiple of the page size below 2^63.
constexpr double unlimited = 0x1p62;

/// Returns the number at the start of a file of the kernel; empty if the file does not exist or has
/// no number ("max").
std::optional<double> number_in(const fs::path& path) {
  std::ifstream file(path);
  double number = 0;
  if (file >> number && number < unlimited) return number;
  return std::nullopt;
}

/// Returns the values of a file with lines "NAME VALUE".
std::map<std::string, double> values_in(const fs::path& path) {
  std::map<std::string, double> values;
  std::ifstream file(path);
  std::string name;
  for (double value = 0; file >> name >> value;) values[name] = value;
  return values;
}

/// Returns a text that identifies the group in all containers of a host.
std::string domain_of(const ControlGroup& group) {
  struct stat status {};
  if (::stat(group.folder.c_str(), &status) != 0) return group.folder;
  return fmt::format("{}:{}", status.st_dev, status.st_ino);
}

void add_memory_limits(const ControlGroup& group, std::vector<Limit>& limits) {
  const bool is_first_version = group.version == 1;
  const auto used =
      number_in(group.folder / (is_first_version ? "memory.usage_in_bytes" : "memory.current"));
  if (!used) return;
  auto statistics = values_in(group.folder / "memory.stat");
  const char* const prefix = is_first_version ? "total_" : "";
  const double cache = statistics[fmt::format("{}inactive_file", prefix)] +
                       statistics[fmt::format("{}active_file", prefix)];
  const auto add = [&](const char* file, std::optional<double> limit) {
    if (!limit) return;
    const double left = *limit - std::max(0.0, *used - cache);
    limits.push_back({std::max(0.0, left), group.folder / file, domain_of(group)});
  };
  if (is_first_version) {
    add("memory.limit_in_bytes", number_in(group.folder / "memory.limit_in_bytes"));
    return;
  }
  add("memory.max", number_in(group.folder / "memory.max"));
  // Above this limit, the kernel slows the group down until it has freed memory.
  add("memory.high", number_in(group.folder / "memory.high"));
}

void add_resource_limit(decltype(RLIMIT_AS) resource, const char* source, double used,
                        std::vector<Limit>& limits) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return;
  if (limit.rlim_cur == RLIM_INFINITY) return;
  limits.push_back({std::max(0.0, static_cast<double>(limit.rlim_cur) - used), source, ""});
}

}  // namespace

std::vector<Limit> memory_limits(const fs::path& root) {
  std::vector<Limit> limits;
  if (const auto bytes = available_host_memory(root))
    limits.push_back({static_cast<double>(*bytes), "MemAvailable of /proc/meminfo", "host"});
  for (const ControlGroup& group : control_groups(root, "memory")) add_memory_limits(group, limits);
  const AllocatedMemory allocated = allocated_memory();
  add_resource_limit(RLIMIT_AS, "RLIMIT_AS (ulimit -v)",
                     static_cast<double>(allocated.address_space), limits);
  add_resource_limit(RLIMIT_DATA, "RLIMIT_DATA (ulimit -d)", static_cast<double>(allocated.data),
                     limits);
  return limits;
}

std::vector<Limit> processor_quotas(const fs::path& root) {
  std::vector<Limit> quotas;
  for (const ControlGroup& group : control_groups(root, "cpu")) {
    const bool is_first_version = group.version == 1;
    const char* const name = is_first_version ? "cpu.cfs_quota_us" : "cpu.max";
    std::ifstream file(group.folder / name);
    double quota = 0, period = 0;  // -1 or "max": no quota
    if (!(file >> quota) || quota <= 0) continue;
    if (is_first_version) file = std::ifstream(group.folder / "cpu.cfs_period_us");
    if (file >> period && period > 0)
      quotas.push_back({quota / period, group.folder / name, domain_of(group)});
  }
  return quotas;
}

std::vector<Limit> thread_limits(const fs::path& root) {
  std::vector<Limit> limits;
  if (::geteuid() != 0) add_resource_limit(RLIMIT_NPROC, "RLIMIT_NPROC (ulimit -u)", 0, limits);
  for (const ControlGroup& group : control_groups(root, "pids")) {
    if (const auto most = number_in(group.folder / "pids.max"))
      limits.push_back({*most, group.folder / "pids.max", domain_of(group)});
  }
  return limits;
}

Limit smallest_share(const std::vector<Limit>& limits,
                     const std::vector<std::vector<std::string>>& processes) {
  std::vector<Limit> shares = limits;
  for (Limit& share : shares) {
    if (share.domain.empty()) continue;
    const auto sharers = std::ranges::count_if(processes, [&](const auto& domains) {
      return std::ranges::find(domains, share.domain) != domains.end();
    });
    share.value /= static_cast<double>(std::max<std::ptrdiff_t>(1, sharers));
  }
  return *std::ranges::min_element(shares, {}, &Limit::value);
}

AllocationLimit::AllocationLimit(std::uint64_t bytes) {
  check(::getrlimit(RLIMIT_DATA, &before_) == 0, "the limit of the data segment is readable");
  rlimit limit = before_;
  const std::uint64_t allocated = allocated_memory().data;
  const std::uint64_t most = std::min<std::uint64_t>(limit.rlim_cur, limit.rlim_max);
  limit.rlim_cur = bytes < most - std::min(most, allocated) ? allocated + bytes : most;
  check(::setrlimit(RLIMIT_DATA, &limit) == 0, "a process may lower its limits");
}

AllocationLimit::~AllocationLimit() { ::setrlimit(RLIMIT_DATA, &before_); }

}  // namespace lockstep::core
