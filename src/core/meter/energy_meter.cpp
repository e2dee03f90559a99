// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/energy_meter.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "counter_file.hpp"

namespace lockstep::core {

namespace fs = std::filesystem;

namespace {

struct Zone {
  CounterFile counter;      ///< microjoules
  std::uint64_t range = 0;  ///< the counter restarts at 0 after this value
  std::uint64_t last = 0;
};

std::string text_in(const fs::path& path) {
  std::array<char, 64> buffer;
  const std::string_view text = CounterFile(path).read(buffer);
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

struct EnergyMeter::State {
  std::vector<Zone> zones;
  std::string names, refusal;
  double microjoules = 0;

  void open(const fs::path& path, const std::string& name);
};

/// Adds the zone, or sets the reason why the energy cannot be read.
void EnergyMeter::State::open(const fs::path& path, const std::string& name) {
  Zone zone{CounterFile(path / "energy_uj")};
  if (const int error = zone.counter.error_number()) {
    refusal = fmt::format("{}: {}", (path / "energy_uj").string(), std::strerror(error));
    return;
  }
  const auto range = CounterFile(path / "max_energy_range_uj").number();
  const auto now = zone.counter.number();
  if (!range || !now || *range == 0) {
    refusal = fmt::format("{}: no number in energy_uj or max_energy_range_uj", path.string());
    return;
  }
  zone.range = *range;
  zone.last = *now;
  zones.push_back(std::move(zone));
  names += (names.empty() ? "" : ", ") + name;
}

EnergyMeter::EnergyMeter(const fs::path& zones) : state_(std::make_unique<State>()) {
  bool has_package = false;
  for (const fs::path& path : entries_of(zones)) {
    // `intel-rapl` is the name on AMD processors too. The zones of `intel-rapl-mmio` are further
    // interfaces to the same counters.
    if (!path.filename().string().starts_with("intel-rapl:")) continue;
    const std::string name = text_in(path / "name");
    const bool is_package = name.starts_with("package");
    if (!is_package && name != "dram") continue;
    has_package = has_package || is_package;
    if (state_->refusal.empty()) state_->open(path, name);
  }
  if (!has_package) state_->refusal = fmt::format("{} has no RAPL counters", zones.string());
  // A sum that lacks a part of the host would look like a measurement of all of it.
  if (!state_->refusal.empty()) {
    state_->zones.clear();
    state_->names.clear();
  }
}
EnergyMeter::~EnergyMeter() = default;

double EnergyMeter::read() {
  bool is_complete = !state_->zones.empty();
  for (Zone& zone : state_->zones) {
    const auto now = zone.counter.number();
    is_complete = is_complete && now;
    if (!now) continue;
    const std::uint64_t increase =
        *now >= zone.last ? *now - zone.last : zone.range - zone.last + *now;
    state_->microjoules += static_cast<double>(increase);
    zone.last = *now;
  }
  return is_complete ? 1e-6 * state_->microjoules : std::numeric_limits<double>::quiet_NaN();
}

const std::string& EnergyMeter::zones() const { return state_->names; }
const std::string& EnergyMeter::refusal() const { return state_->refusal; }

}  // namespace lockstep::core
