#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "lockstep/record/provenance.hpp"

// Information that Linux provides about this process and its host.
namespace lockstep::record {

namespace {

/// Returns the processors that this process may use, for example "0-3,8" for 0, 1, 2, 3 and 8.
std::string list_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::string list;
  for (int first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &set)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    if (!list.empty()) list += ',';
    list += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  return list;
}

/// Returns the text after the colon in the first line that starts with `key` and has a colon, of a
/// file such as /proc/cpuinfo; empty if there is no such line.
std::string value_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const auto start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

/// Returns the number of bytes of a value such as "1234 kB"; 0 if there is none.
std::uint64_t bytes_in(const char* path, const std::string& key) {
  std::uint64_t kibibytes = 0;
  std::istringstream(value_in(path, key)) >> kibibytes;
  return kibibytes * 1024;
}

}  // namespace

RankInfo describe_process() {
  RankInfo info;
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) == 0) info.hostname = host;
  info.cpu_list = list_processors();
  info.device_name = value_in("/proc/cpuinfo", "model name");
  if (info.device_name.empty()) info.device_name = "CPU";
  info.memory_bytes = bytes_in("/proc/meminfo", "MemTotal");
  return info;
}

ResidentMemory resident_memory() {
  return {bytes_in("/proc/self/status", "VmRSS"), bytes_in("/proc/self/status", "VmHWM")};
}

}  // namespace lockstep::record
