#include "epoch_readings.hpp"

#include <span>

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
}

void EpochReadings::end_epoch() {
  const double energy_before = reading_.energy_joules;
  reading_ = device_.read_sensors();
  reading_.energy_joules -= energy_before;
  host_joules_ = host_energy() - host_joules_;
  peak_bytes_ = static_cast<double>(memory_.interval());
}

void EpochReadings::add_to(record::EpochRecord& epoch) const {
  const auto gather = [&](double value) { return world_.gather(std::span(&value, 1)); };
  epoch.measurements["/epochs/energy_joules"] = gather(reading_.energy_joules);
  epoch.measurements["/epochs/host_energy_joules"] = gather(host_joules_);
  epoch.measurements["/epochs/utilisation"] = gather(reading_.utilisation);
  epoch.measurements["/epochs/memory_used_bytes"] = gather(reading_.memory_bytes);
  epoch.measurements["/epochs/peak_resident_memory_bytes"] = gather(peak_bytes_);
}

}  // namespace lockstep::train
