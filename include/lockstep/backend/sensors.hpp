#pragma once

#include <limits>

namespace lockstep::backend {

/// What a device's own sensors say at a moment; NaN where it has none.
struct SensorReading {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double energy_joules = unknown;  ///< taken since some moment in the past
  double utilisation = unknown;    ///< share of its last sampling period (up to 1 s) in which a
                                   ///< kernel ran, from 0 to 1
  double memory_bytes = unknown;   ///< in use, by all processes
};

}  // namespace lockstep::backend
