// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/network_meter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "counter_file.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::core {

namespace fs = std::filesystem;

namespace {

/// InfiniBand ports count in units of four bytes (the lanes of a link; sysfs-class-infiniband).
constexpr std::uint64_t infiniband_unit = 4;

/// Counters of one direction: its latest value, and the sum of its increases.
struct Total {
  std::optional<std::uint64_t> last;
  std::uint64_t sum = 0;

  /// Adds the increase since the last reading, and returns the sum; NaN without a reading.
  double add(std::optional<std::uint64_t> now) {
    if (!now) return std::numeric_limits<double>::quiet_NaN();
    // A counter that is lower than before has restarted at 0.
    if (last) sum += *now >= *last ? *now - *last : *now;
    last = now;
    return static_cast<double>(sum);
  }
};

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

/// Counters of an InfiniBand port.
struct Port {
  CounterFile received, sent;
};

}  // namespace

struct NetworkMeter::State {
  std::vector<std::string> names;  ///< the ports come first
  std::vector<Port> ports;
  std::vector<std::pair<Total, Total>> totals;  ///< received and sent
  CounterFile devices;
  std::array<char, std::size_t{1} << 15> buffer;

  void open_ports(const fs::path& adapters);
  void list_devices();
  void read(std::span<NetworkTraffic> traffic);
  void add(std::size_t index, std::optional<std::uint64_t> received,
           std::optional<std::uint64_t> sent, std::span<NetworkTraffic> traffic) {
    traffic[index] = {totals[index].first.add(received), totals[index].second.add(sent)};
  }
};

void NetworkMeter::State::open_ports(const fs::path& adapters) {
  for (const fs::path& adapter : entries_of(adapters)) {
    for (const fs::path& port : entries_of(adapter / "ports")) {
      Port counters{CounterFile(port / "counters/port_rcv_data"),
                    CounterFile(port / "counters/port_xmit_data")};
      if (!counters.received.number() || !counters.sent.number()) continue;
      if (names.size() == most_interfaces) return;
      names.push_back(fmt::format("{}:{}", adapter.filename().string(), port.filename().string()));
      ports.push_back(std::move(counters));
    }
  }
}

void NetworkMeter::State::list_devices() {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  std::string_view text = devices.read(buffer);
  while (!text.empty()) {
    const auto line = take_interface(text);
    if (line) found.emplace_back(line->second.received + line->second.sent, line->first);
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, &decltype(found)::value_type::first);
  for (const auto& device : found) {
    if (names.size() < most_interfaces) names.push_back(device.second);
  }
}

void NetworkMeter::State::read(std::span<NetworkTraffic> traffic) {
  std::ranges::fill(traffic, NetworkTraffic{});
  const auto bytes = [](std::optional<std::uint64_t> units) {
    return units ? std::optional(*units * infiniband_unit) : std::nullopt;
  };
  for (std::size_t i = 0; i < ports.size(); ++i) {
    add(i, bytes(ports[i].received.number()), bytes(ports[i].sent.number()), traffic);
  }
  std::string_view text = devices.read(buffer);
  while (!text.empty()) {
    const auto line = take_interface(text);
    if (!line) continue;
    const auto at = std::ranges::find(names.begin() + std::ssize(ports), names.end(), line->first);
    if (at == names.end()) continue;
    add(static_cast<std::size_t>(at - names.begin()), line->second.received, line->second.sent,
        traffic);
  }
}

NetworkMeter::NetworkMeter(const fs::path& root)
    : state_(new State{{}, {}, {}, CounterFile(root / "proc/self/net/dev"), {}}) {
  state_->open_ports(root / "sys/class/infiniband");
  state_->list_devices();
  state_->totals.resize(state_->names.size());
  std::vector<NetworkTraffic> first(state_->names.size());
  state_->read(first);  // the traffic counts from here
}
NetworkMeter::~NetworkMeter() = default;

std::span<const std::string> NetworkMeter::names() const { return state_->names; }

void NetworkMeter::read(std::span<NetworkTraffic> traffic) {
  check(traffic.size() == state_->names.size(), "traffic of another number of interfaces");
  state_->read(traffic);
}

}  // namespace lockstep::core
