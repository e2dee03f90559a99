// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/core/meter/counter_file.hpp"

namespace lockstep::core {

/// Energy that the processors of this host consume, and its memory if that is measured separately.
/// Source: the RAPL counters of Linux (/sys/class/powercap), zones `package-N` and `dram`. The zone
/// `psys` and the parts of a package are not added, because they would count energy twice. The
/// counters include the work of other processes. Reading allocates no memory.
class EnergyMeter {
 public:
  /// `directory`: contains the zones; tests replace it.
  explicit EnergyMeter(const std::filesystem::path& directory = "/sys/class/powercap");

  /// Returns the energy in joules since the construction; NaN if a counter cannot be read. A
  /// counter wraps around after about 262 kJ, which is 20 minutes at 200 W. The energy is correct
  /// if no counter wraps around more than once between two calls.
  double read();

  /// Returns the names of the zones: "package-0, dram"; empty if the energy cannot be read.
  const std::string& zones() const { return names_; }
  /// Returns the reason why the energy cannot be read; empty if it can.
  const std::string& refusal() const { return refusal_; }

 private:
  struct Zone {
    CounterFile counter;      ///< microjoules
    std::uint64_t range = 0;  ///< the counter restarts at 0 after this value
    std::uint64_t last = 0;
  };

  /// Adds the zone, or sets the reason why the energy cannot be read.
  void open(const std::filesystem::path& path, const std::string& name);

  std::vector<Zone> zones_;
  std::string names_, refusal_;
  double microjoules_ = 0;
};

}  // namespace lockstep::core
