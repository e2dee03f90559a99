// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <limits>

namespace lockstep::backend {

/// Readings of the sensors of a device; NaN if the device does not provide a value.
struct SensorReading {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double energy_joules = unknown;  ///< consumed since an unspecified time in the past
  /// Fraction of the last sampling period (up to 1 s) in which a kernel ran, from 0 to 1.
  double utilisation = unknown;
  double memory_bytes = unknown;  ///< in use by all processes
  /// Power of the device: mean over the last second, or the current value (A100 and older GPUs).
  double power_watts = unknown;
};

}  // namespace lockstep::backend
