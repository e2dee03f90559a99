// SPDX-License-Identifier: BSD-3-Clause
#include "telemetry.hpp"

#include <algorithm>
#include <limits>

#include "lockstep/comm/messages.hpp"

namespace lockstep::train {

namespace {

constexpr std::size_t quantities = record::telemetry_paths.size();

/// Returns the (rank, interface) names; every rank has the same number, at least 1. Collective.
std::vector<std::string> gather_names(std::span<const std::string> own,
                                      comm::Communicator& communicator) {
  auto names = comm::all_gather(communicator, std::vector(own.begin(), own.end()));
  std::size_t most = 1;
  for (const auto& of_rank : names) most = std::max(most, of_rank.size());
  std::vector<std::string> all;
  for (auto& of_rank : names) {
    of_rank.resize(most);
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  return all;
}

}  // namespace

Telemetry::Telemetry(const backend::Device& device, comm::Communicator& world, double hertz)
    : device_(device),
      world_(world),
      hertz_(hertz),
      interfaces_(gather_names(network_.names(), world)),
      traffic_(network_.names().size()) {}

std::size_t Telemetry::width() const {
  return quantities + 2 * interfaces_.size() / static_cast<std::size_t>(world_.size());
}

void Telemetry::begin(double origin) {
  first_device_energy_ = device_.read_sensors().energy_joules;
  sampler_.emplace(width(), hertz_, origin,
                   [this](const SampleTime& time, std::span<double> row) { fill(time, row); });
}

void Telemetry::end() { sampler_.reset(); }

std::string Telemetry::host_energy_source() const {
  return energy_.refusal().empty() ? energy_.zones() : "not readable: " + energy_.refusal();
}

double Telemetry::host_energy_joules() {
  const std::scoped_lock lock(energy_mutex_);
  return energy_.read();
}

/// Called by the thread of the sampler, one call at a time.
void Telemetry::fill(const SampleTime& time, std::span<double> row) {
  std::ranges::fill(row, std::numeric_limits<double>::quiet_NaN());
  const auto set = [&](record::TelemetryQuantity quantity, double value) {
    row[static_cast<std::size_t>(quantity)] = value;
  };
  using enum record::TelemetryQuantity;
  const core::ProcessUsage usage = process_.read();
  const backend::SensorReading reading = device_.read_sensors();
  set(seconds, time.seconds);
  set(user_cpu_seconds, usage.user_seconds);
  set(system_cpu_seconds, usage.system_seconds);
  set(resident_memory_bytes, usage.resident_bytes);
  set(voluntary_context_switches, usage.voluntary_switches);
  set(involuntary_context_switches, usage.involuntary_switches);
  set(device_utilisation, reading.utilisation);
  set(device_memory_bytes, reading.memory_bytes);
  set(device_power_watts, reading.power_watts);
  set(device_energy_joules, reading.energy_joules - first_device_energy_);
  set(host_energy_joules, this->host_energy_joules());
  set(sampler_cpu_seconds, time.cpu_seconds);
  network_.read(traffic_);
  for (std::size_t i = 0; i < traffic_.size(); ++i) {
    row[quantities + 2 * i] = traffic_[i].received_bytes;
    row[quantities + 2 * i + 1] = traffic_[i].sent_bytes;
  }
}

void Telemetry::add_to(record::EpochRecord& epoch) {
  const std::size_t width = this->width();
  const auto all = comm::gather(world_, sampler_.value().take());
  record::TelemetrySamples& samples = epoch.telemetry;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (std::size_t begin = 0; begin < all[rank].size(); begin += width) {
      const auto row = std::span(all[rank]).subspan(begin, width);
      const auto traffic = row.begin() + quantities;
      samples.rank.push_back(static_cast<std::int64_t>(rank));
      samples.values.insert(samples.values.end(), row.begin(), traffic);
      samples.traffic_bytes.insert(samples.traffic_bytes.end(), traffic, row.end());
    }
  }
}

}  // namespace lockstep::train
