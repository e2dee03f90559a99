// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::record {

/// Quantities of a telemetry sample. The schema of the run file defines them.
enum class TelemetryQuantity {
  seconds,
  user_cpu_seconds,
  system_cpu_seconds,
  resident_memory_bytes,
  voluntary_context_switches,
  involuntary_context_switches,
  device_utilisation,
  device_memory_bytes,
  device_power_watts,
  device_energy_joules,
  host_energy_joules,
  sampler_cpu_seconds,
};

/// Datasets of the quantities, in the order of `TelemetryQuantity`.
inline constexpr std::array<std::string_view, 12> telemetry_paths{
    "/telemetry/seconds",
    "/telemetry/user_cpu_seconds",
    "/telemetry/system_cpu_seconds",
    "/telemetry/resident_memory_bytes",
    "/telemetry/voluntary_context_switches",
    "/telemetry/involuntary_context_switches",
    "/telemetry/device_utilisation",
    "/telemetry/device_memory_bytes",
    "/telemetry/device_power_watts",
    "/telemetry/device_energy_joules",
    "/telemetry/host_energy_joules",
    "/telemetry/sampler_cpu_seconds"};

/// Number of samples per chunk of the run file. Only whole chunks are appended during the run, so
/// a kill during an append cannot damage samples that were complete before.
inline constexpr std::size_t telemetry_chunk = 64;

/// Telemetry samples of several ranks. Arrays are flat, last index fastest.
struct TelemetrySamples {
  std::vector<std::int64_t> rank;     ///< (sample)
  std::vector<double> values;         ///< (sample, quantity)
  std::vector<double> traffic_bytes;  ///< (sample, interface, 2): received and sent

  std::size_t size() const { return rank.size(); }
};

}  // namespace lockstep::record
