// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/process_meter.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "lockstep/core/process/system.hpp"

namespace lockstep::core {

namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

ProcessUsage ProcessMeter::read() const {
  ProcessUsage usage;
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) == 0) {
    usage.user_seconds = seconds_of(used.ru_utime);
    usage.system_seconds = seconds_of(used.ru_stime);
    usage.voluntary_switches = static_cast<double>(used.ru_nvcsw);
    usage.involuntary_switches = static_cast<double>(used.ru_nivcsw);
  }
  std::array<char, 256> buffer;
  std::string_view text = memory_.read(buffer);
  take_field(text);  // the size of the address space precedes the resident pages (proc(5))
  if (const auto pages = parse_number(take_field(text))) {
    usage.resident_bytes =
        static_cast<double>(*pages) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  }
  return usage;
}

void PeakMemory::begin_interval() {
  earlier_ = std::max(earlier_, resident_memory().peak);
  // 5 resets only the peak (proc(5)). Without permission the peak since the start remains valid.
  std::ofstream("/proc/self/clear_refs") << '5';
}

std::uint64_t PeakMemory::interval() const { return resident_memory().peak; }

std::uint64_t PeakMemory::total() const { return std::max(earlier_, resident_memory().peak); }

}  // namespace lockstep::core
