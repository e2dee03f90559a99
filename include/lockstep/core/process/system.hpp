// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

// Facts about this host, this process and its environment, as Linux reports them.
namespace lockstep::core {

/// Returns the name of this host; "unknown" if the system does not provide it.
std::string host_name();

/// Returns the model name of the processor; empty if the system does not provide it.
std::string cpu_model();

/// Returns the bytes of memory of this host; 0 if unknown.
std::uint64_t installed_memory();

/// Returns the bytes of memory that are available on this host (MemAvailable of /proc/meminfo);
/// empty if unknown. `limits.hpp` has the limits of this process. `root`: directory that contains
/// `proc`; tests replace it.
std::optional<std::uint64_t> available_host_memory(const std::filesystem::path& root = "/");

/// Returns the directory for files that later runs reuse: LOCKSTEP_CACHE_DIR, else
/// $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep. Returns an empty path (no such directory) if
/// LOCKSTEP_CACHE_DIR is set but empty, or if there is no home directory.
std::filesystem::path cache_directory();

/// Resident memory of this process in bytes.
struct ResidentMemory {
  std::uint64_t now = 0;
  std::uint64_t peak = 0;  ///< since the start of the process, or of an interval of `PeakMemory`
};
ResidentMemory resident_memory();

/// Memory that this process has allocated, touched or not, in bytes (/proc/self/status).
struct AllocatedMemory {
  std::uint64_t address_space = 0;  ///< VmSize, which RLIMIT_AS limits
  std::uint64_t data = 0;           ///< VmData: private writable memory, which RLIMIT_DATA limits
};
AllocatedMemory allocated_memory();

}  // namespace lockstep::core
