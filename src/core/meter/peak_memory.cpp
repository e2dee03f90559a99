// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/peak_memory.hpp"

#include <algorithm>
#include <fstream>

#include "lockstep/core/process/system.hpp"

namespace lockstep::core {

void PeakMemory::begin_interval() {
  earlier_ = std::max(earlier_, resident_memory().peak);
  // 5 resets only the peak (proc(5)). Without permission the peak since the start remains valid.
  std::ofstream("/proc/self/clear_refs") << '5';
}

std::uint64_t PeakMemory::interval() const { return resident_memory().peak; }

std::uint64_t PeakMemory::total() const { return std::max(earlier_, resident_memory().peak); }

}  // namespace lockstep::core
