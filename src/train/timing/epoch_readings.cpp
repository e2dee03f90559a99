// SPDX-License-Identifier: BSD-3-Clause
#include "epoch_readings.hpp"

#include "lockstep/comm/messages.hpp"

namespace lockstep::train {

EpochReadings::EpochReadings(const backend::Device& device, comm::Communicator& world,
                             std::optional<Telemetry>& telemetry)
    : device_(device), world_(world), telemetry_(telemetry) {}

double EpochReadings::host_energy() {
  return telemetry_ ? telemetry_->host_energy_joules() : backend::SensorReading::unknown;
}

void EpochReadings::begin_epoch() {
  reading_ = device_.read_sensors();
  host_joules_ = host_energy();
  memory_.begin_interval();
  processors_.begin_interval();
}

void EpochReadings::end_epoch() {
  usage_ = processors_.interval();
  const double energy_before = reading_.energy_joules;
  reading_ = device_.read_sensors();
  reading_.energy_joules -= energy_before;
  host_joules_ = host_energy() - host_joules_;
  peak_bytes_ = static_cast<double>(memory_.interval());
}

void EpochReadings::add_to(record::EpochRecord& epoch) {
  const auto gather = [&](double value) { return comm::gather(world_, value); };
  epoch.measurements["/epochs/energy_joules"] = gather(reading_.energy_joules);
  epoch.measurements["/epochs/host_energy_joules"] = gather(host_joules_);
  epoch.measurements["/epochs/utilisation"] = gather(reading_.utilisation);
  epoch.measurements["/epochs/memory_used_bytes"] = gather(reading_.memory_bytes);
  epoch.measurements["/epochs/peak_resident_memory_bytes"] = gather(peak_bytes_);
  epoch.measurements["/epochs/cpu_seconds"] = gather(usage_.cpu_seconds);
  epoch.measurements["/epochs/run_delay_seconds"] = gather(usage_.run_delay_seconds);
  epoch.measurements["/epochs/processor_busy_seconds"] = gather(usage_.busy_seconds);
  epoch.measurements["/epochs/processor_steal_seconds"] = gather(usage_.steal_seconds);
  epoch.measurements["/epochs/throttled_periods"] = gather(usage_.throttled_periods);
}

}  // namespace lockstep::train
