#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/core/error.hpp"

// Facts about this host, this process and its environment, as Linux reports them.
namespace lockstep::core {

/// Returns the name of this host; "unknown" if the system does not provide it.
std::string host_name();

/// Returns the model name of the processor; empty if the system does not provide it.
std::string cpu_model();

/// Returns the bytes of memory of this host; 0 if unknown.
std::uint64_t installed_memory();

/// Returns the bytes of memory that are available on this host: MemAvailable of /proc/meminfo, or
/// what remains of the memory limit of the control group of this process if that is less. Returns
/// the largest number if neither is known.
std::uint64_t available_memory();

/// Returns the directory for files that later runs reuse: LOCKSTEP_CACHE_DIR, else
/// $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep. Returns an empty path (no such directory) if
/// LOCKSTEP_CACHE_DIR is set but empty, or if there is no home directory.
std::filesystem::path cache_directory();

/// Limit of files of options and parameters, far above the size of a correct one.
inline constexpr std::size_t most_bytes_of_parameters = 1'000'000;

/// Returns the contents of a file or pipe that an option such as "--config" names. Throws an
/// `Error` with `status`, whose message contains `option` and `path`, if the file cannot be read,
/// or if it has more than `most` bytes, so that reading a device without an end terminates.
std::string read_option_file(std::string_view option, const std::filesystem::path& path,
                             ExitStatus status, std::size_t most = most_bytes_of_parameters);

/// Resident memory of this process in bytes.
struct ResidentMemory {
  std::uint64_t now = 0;
  std::uint64_t peak = 0;  ///< since the start of the process, or of an interval of `PeakMemory`
};
ResidentMemory resident_memory();

/// Returns the bytes of private writable memory of this process, touched or not (VmData of
/// /proc/self/status), which RLIMIT_DATA limits.
std::uint64_t allocated_memory();

}  // namespace lockstep::core
