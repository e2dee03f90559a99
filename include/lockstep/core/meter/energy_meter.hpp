// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace lockstep::core {

/// Energy that the processors of this host consume, and its memory if that is measured separately.
/// Source: the RAPL counters of Linux (/sys/class/powercap), zones `package-N` and `dram`. The zone
/// `psys` and the parts of a package are not added, because they would count energy twice. The
/// counters include the work of other processes. Reading allocates no memory.
class EnergyMeter {
 public:
  /// `zones`: directory of the zones; tests replace it.
  explicit EnergyMeter(const std::filesystem::path& zones = "/sys/class/powercap");
  ~EnergyMeter();

  /// Returns the energy in joules since the construction; NaN if a counter cannot be read. A
  /// counter wraps around after about 262 kJ, which is 20 minutes at 200 W. The energy is correct
  /// if no counter wraps around more than once between two calls.
  double read();

  /// Returns the names of the zones: "package-0, dram"; empty if the energy cannot be read.
  const std::string& zones() const;
  /// Returns the reason why the energy cannot be read; empty if it can.
  const std::string& refusal() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::core
