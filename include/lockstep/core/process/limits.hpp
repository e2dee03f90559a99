// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// The limits that the system sets for this process. `root`: directory that contains `proc` and
// `sys`; tests replace it.
namespace lockstep::core {

/// A limit and its source.
struct Limit {
  double value = 0;
  std::string source;  ///< file, or function and option of the shell: "RLIMIT_AS (ulimit -v)"
  /// What the limit applies to: empty for this process alone, "host" for all processes of the host,
  /// otherwise a control group, with the same text in all processes that belong to it.
  std::string domain;
};

/// Returns the limits of the memory that this process can still use, in bytes: the available memory
/// of the host, what remains of the limits of its control groups (versions 1 and 2), and of
/// RLIMIT_AS and RLIMIT_DATA. The kernel frees page cache if a group reaches its limit, so cache is
/// not counted as used.
std::vector<Limit> memory_limits(const std::filesystem::path& root = "/");

/// Returns the CPU quotas of the control groups of this process, in processors: the processor time
/// per period divided by the period.
std::vector<Limit> processor_quotas(const std::filesystem::path& root = "/");

/// Returns the largest permitted numbers of threads: of the user (RLIMIT_NPROC, which does not
/// apply to root) and of the control groups.
std::vector<Limit> thread_limits(const std::filesystem::path& root = "/");

/// Returns the share of this process in the limit that leaves it least, if `processes` lists for
/// each process to which shares are given, including this one, the domains of its limits.
/// `limits` must not be empty.
Limit smallest_share(const std::vector<Limit>& limits,
                     const std::vector<std::vector<std::string>>& processes);

/// Limits the memory that this process can allocate while the object exists, so that an allocation
/// beyond the limit fails (`Buffer` throws `Error` with status out_of_memory) instead of exhausting
/// the memory of the host. Linux counts private writable memory, whether it is touched or not
/// (RLIMIT_DATA). At most one object may exist at a time.
class AllocationLimit {
 public:
  /// `bytes`: that this process may allocate in addition to what it has allocated. The destructor
  /// restores the limit that was valid before.
  explicit AllocationLimit(std::uint64_t bytes);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace lockstep::core
