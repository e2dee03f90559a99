// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/system.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

namespace lockstep::core {

namespace {

/// Returns the text after the colon in the first line that starts with `key` and has a colon, of a
/// file such as /proc/cpuinfo; empty if there is no such line.
std::string value_in(const std::filesystem::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const auto start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

/// Returns the number of bytes of a value such as "1234 kB"; empty if there is none.
std::optional<std::uint64_t> bytes_in(const std::filesystem::path& path, const std::string& key) {
  std::uint64_t kibibytes = 0;
  if (std::istringstream(value_in(path, key)) >> kibibytes) return kibibytes * 1024;
  return std::nullopt;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string cpu_model() { return value_in("/proc/cpuinfo", "model name"); }

std::uint64_t installed_memory() { return bytes_in("/proc/meminfo", "MemTotal").value_or(0); }

std::optional<std::uint64_t> available_host_memory(const std::filesystem::path& root) {
  return bytes_in(root / "proc/meminfo", "MemAvailable");
}

std::filesystem::path cache_directory() {
  if (const char* directory = std::getenv("LOCKSTEP_CACHE_DIR")) return directory;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::filesystem::path(cache) / "lockstep";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "lockstep";
  return {};
}

ResidentMemory resident_memory() {
  return {bytes_in("/proc/self/status", "VmRSS").value_or(0),
          bytes_in("/proc/self/status", "VmHWM").value_or(0)};
}

AllocatedMemory allocated_memory() {
  return {bytes_in("/proc/self/status", "VmSize").value_or(0),
          bytes_in("/proc/self/status", "VmData").value_or(0)};
}

}  // namespace lockstep::core
