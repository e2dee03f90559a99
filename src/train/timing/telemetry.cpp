// SPDX-License-Identifier: BSD-3-Clause
#include "telemetry.hpp"

#include <algorithm>
#include <ctime>
#include <limits>
#include <utility>

#include "lockstep/comm/messages.hpp"
#include "lockstep/core/process/thread.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::train {

namespace {

double thread_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

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

SamplingIntervals::SamplingIntervals(double hertz)
    : interval_(std::chrono::duration<double>(1 / hertz) < longest
                    ? std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::duration<double>(1 / hertz))
                    : longest) {}

std::chrono::nanoseconds SamplingIntervals::next() {
  if (++samples_ > samples_per_interval) {
    samples_ = 1;
    interval_ = std::min(2 * interval_, longest);
  }
  return interval_;
}

TelemetrySampler::TelemetrySampler(std::size_t width, double hertz, double origin, Source source,
                                   std::size_t limit)
    : width_(width),
      limit_(limit),
      origin_(origin),
      source_(std::move(source)),
      intervals_(hertz),
      rows_(std::make_unique_for_overwrite<double[]>(limit * width)),
      thread_(core::start_helper([this](const std::stop_token& stop) { run(stop); })) {}

std::vector<double> TelemetrySampler::take() {
  const std::scoped_lock lock(mutex_);
  sample(cpu_seconds_);
  std::vector<double> rows(rows_.get(), rows_.get() + count_ * width_);
  count_ = 0;
  return rows;
}

void TelemetrySampler::sample(double cpu_seconds) {
  if (count_ == limit_) return;
  source_({.seconds = core::host_seconds() - origin_, .cpu_seconds = cpu_seconds},
          std::span(rows_.get() + count_ * width_, width_));
  ++count_;
}

void TelemetrySampler::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  using Clock = std::chrono::steady_clock;
  Clock::time_point next = Clock::now();
  while (!stop.stop_requested()) {
    sample(cpu_seconds_);
    cpu_seconds_ = thread_cpu_seconds();
    // Samples that are late are not made up for.
    next = std::max(next + intervals_.next(), Clock::now());
    stopping_.wait_until(lock, stop, next, [] { return false; });
  }
}

Telemetry::Telemetry(const backend::Device& device, comm::Communicator& world, double hertz)
    : device_(device),
      world_(world),
      hertz_(hertz),
      interfaces_(gather_names(network_.names(), world)),
      traffic_(network_.names().size()) {}

std::size_t Telemetry::width() const {
  return quantities + 2 * interfaces_.size() / static_cast<std::size_t>(world_.size());
}

void Telemetry::run_begin(double origin) {
  first_device_energy_ = device_.read_sensors().energy_joules;
  sampler_.emplace(width(), hertz_, origin,
                   [this](const SampleTime& time, std::span<double> row) { fill(time, row); });
}

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

void Telemetry::epoch_end(record::EpochRecord& epoch) {
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
