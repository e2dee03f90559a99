// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/energy_meter.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

namespace lockstep::core {

namespace fs = std::filesystem;

namespace {

std::string text_in(const fs::path& path) {
  std::array<char, 64> buffer;
  const std::string_view text = CounterFile(path).read(buffer);
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

EnergyMeter::EnergyMeter(const fs::path& directory) {
  bool has_package = false;
  for (const fs::path& path : entries_of(directory)) {
    // `intel-rapl` is the name on AMD processors too. The zones of `intel-rapl-mmio` are further
    // interfaces to the same counters.
    if (!path.filename().string().starts_with("intel-rapl:")) continue;
    const std::string name = text_in(path / "name");
    const bool is_package = name.starts_with("package");
    if (!is_package && name != "dram") continue;
    has_package = has_package || is_package;
    if (refusal_.empty()) open(path, name);
  }
  if (!has_package) refusal_ = fmt::format("{} has no RAPL counters", directory.string());
  // A sum that lacks a part of the host would look like a measurement of all of it.
  if (!refusal_.empty()) {
    zones_.clear();
    names_.clear();
  }
}

void EnergyMeter::open(const fs::path& path, const std::string& name) {
  Zone zone{CounterFile(path / "energy_uj")};
  const auto range = CounterFile(path / "max_energy_range_uj").number();
  const auto now = zone.counter.number();
  if (const int error = zone.counter.error_number()) {
    refusal_ = fmt::format("{}: {}", (path / "energy_uj").string(), std::strerror(error));
  } else if (!range || !now || *range == 0) {
    refusal_ = fmt::format("{}: no number in energy_uj or max_energy_range_uj", path.string());
  } else {
    zone.range = *range;
    zone.last = *now;
    zones_.push_back(std::move(zone));
    names_ += (names_.empty() ? "" : ", ") + name;
  }
}

double EnergyMeter::read() {
  bool is_complete = !zones_.empty();
  for (Zone& zone : zones_) {
    const auto now = zone.counter.number();
    is_complete = is_complete && now;
    if (!now) continue;
    const std::uint64_t increase =
        *now >= zone.last ? *now - zone.last : zone.range - zone.last + *now;
    microjoules_ += static_cast<double>(increase);
    zone.last = *now;
  }
  return is_complete ? 1e-6 * microjoules_ : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace lockstep::core
