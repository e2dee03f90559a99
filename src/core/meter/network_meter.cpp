// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/network_meter.hpp"

#include <fmt/format.h>

#include <algorithm>
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

}  // namespace lockstep::core
