// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/host_meter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"

namespace lockstep::core {

namespace fs = std::filesystem;

namespace {

/// InfiniBand ports count in units of four bytes (the lanes of a link; sysfs-class-infiniband).
constexpr std::uint64_t infiniband_unit = 4;

struct Counts {
  std::uint64_t received = 0, sent = 0;
};

/// Removes the next line from `text`. Returns its interface name and counts; nothing if the line is
/// a heading or incomplete.
std::optional<std::pair<std::string_view, Counts>> take_interface(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view blank_name = line.substr(0, colon);
  const std::string_view name = take_field(blank_name);
  line.remove_prefix(colon + 1);
  const auto received = parse_number(take_field(line));
  for (int skipped = 1; skipped < 8; ++skipped) take_field(line);  // bytes are columns 1 and 9
  const auto sent = parse_number(take_field(line));
  if (!received || !sent) return std::nullopt;
  return std::pair{name, Counts{*received, *sent}};
}

std::string text_in(const fs::path& path) {
  std::array<char, 64> buffer;
  const std::string_view text = CounterFile(path).read(buffer);
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

double NetworkMeter::Total::add(std::optional<std::uint64_t> now) {
  if (!now) return std::numeric_limits<double>::quiet_NaN();
  // A counter that is lower than before has restarted at 0.
  if (last) sum += *now >= *last ? *now - *last : *now;
  last = now;
  return static_cast<double>(sum);
}

NetworkMeter::NetworkMeter(const fs::path& root) : devices_(root / "proc/self/net/dev") {
  open_ports(root / "sys/class/infiniband");
  list_devices();
  interfaces_.resize(names_.size());
  std::vector<NetworkTraffic> first(names_.size());
  read(first);  // the traffic counts from here
}

void NetworkMeter::open_ports(const fs::path& adapters) {
  for (const fs::path& adapter : entries_of(adapters)) {
    for (const fs::path& port : entries_of(adapter / "ports")) {
      Port counters{CounterFile(port / "counters/port_rcv_data"),
                    CounterFile(port / "counters/port_xmit_data")};
      if (!counters.received.number() || !counters.sent.number()) continue;
      if (names_.size() == most_interfaces) return;
      names_.push_back(fmt::format("{}:{}", adapter.filename().string(), port.filename().string()));
      ports_.push_back(std::move(counters));
    }
  }
}

void NetworkMeter::list_devices() {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  std::string_view text = devices_.read(buffer_);
  while (!text.empty()) {
    const auto line = take_interface(text);
    if (line) found.emplace_back(line->second.received + line->second.sent, line->first);
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, &decltype(found)::value_type::first);
  for (const auto& device : found) {
    if (names_.size() < most_interfaces) names_.push_back(device.second);
  }
}

void NetworkMeter::read(std::span<NetworkTraffic> traffic) {
  check(traffic.size() == names_.size(), "traffic of another number of interfaces");
  std::ranges::fill(traffic, NetworkTraffic{});
  const auto add = [&](std::size_t index, std::optional<std::uint64_t> received,
                       std::optional<std::uint64_t> sent) {
    traffic[index] = {interfaces_[index].received.add(received), interfaces_[index].sent.add(sent)};
  };
  const auto bytes = [](std::optional<std::uint64_t> units) {
    return units ? std::optional(*units * infiniband_unit) : std::nullopt;
  };
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    add(i, bytes(ports_[i].received.number()), bytes(ports_[i].sent.number()));
  }
  std::string_view text = devices_.read(buffer_);
  while (!text.empty()) {
    const auto line = take_interface(text);
    if (!line) continue;
    const auto at =
        std::ranges::find(names_.begin() + std::ssize(ports_), names_.end(), line->first);
    if (at == names_.end()) continue;
    add(static_cast<std::size_t>(at - names_.begin()), line->second.received, line->second.sent);
  }
}

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
