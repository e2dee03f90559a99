// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/meter/counter_file.hpp"

namespace lockstep::core {

/// Bytes that passed a network interface of this host since the construction of the meter; NaN if
/// the interface cannot be read.
struct NetworkTraffic {
  double received_bytes = std::numeric_limits<double>::quiet_NaN();
  double sent_bytes = std::numeric_limits<double>::quiet_NaN();
};

/// Reads the counters of the network interfaces of this host: those of /proc/net/dev, and the ports
/// of InfiniBand adapters (/sys/class/infiniband), whose RDMA traffic is not in /proc/net/dev. The
/// counters include the traffic of other processes. Reading allocates no memory. If the counter of
/// an interface restarts, the traffic before the restart is kept.
class NetworkMeter {
 public:
  /// The largest number of interfaces; further ones are not read.
  static constexpr std::size_t most_interfaces = 16;

  /// Opens the counters of the interfaces that exist now: InfiniBand ports first, then the
  /// interfaces that have transferred the most bytes. `root`: directory that contains `proc` and
  /// `sys`; tests replace it.
  explicit NetworkMeter(const std::filesystem::path& root = "/");

  /// Returns the names of the interfaces, for example "eth0" or "mlx5_0:1" (adapter and port).
  std::span<const std::string> names() const { return names_; }

  /// Reads the traffic of all interfaces, in the order of `names`. `traffic` has one element per
  /// interface.
  void read(std::span<NetworkTraffic> traffic);

 private:
  struct Port {
    CounterFile received, sent;
  };
  /// Counter of one direction: its latest value, and the sum of its increases.
  struct Total {
    std::optional<std::uint64_t> last;
    std::uint64_t sum = 0;

    /// Adds the increase since the last reading, and returns the sum; NaN without a reading.
    double add(std::optional<std::uint64_t> now);
  };
  struct Interface {
    Total received, sent;
  };

  void open_ports(const std::filesystem::path& adapters);
  void list_devices();

  std::vector<std::string> names_;  ///< the ports come first
  std::vector<Port> ports_;
  std::vector<Interface> interfaces_;  ///< in the order of the names
  CounterFile devices_;
  std::array<char, std::size_t{1} << 15> buffer_;
};

/// Energy that the processors of this host consume, and its memory if that is measured separately.
/// Source: the RAPL counters of Linux (/sys/class/powercap), zones `package-N` and `dram`. The zone
/// `psys` and the parts of a package are not added, because they would count energy twice. The
/// counters include the work of other processes. Reading allocates no memory.
class EnergyMeter {
 public:
  /// `directory`: contains the zones; tests replace it.
  explicit EnergyMeter(const std::filesystem::path& directory = "/sys/class/powercap");

  /// Returns the energy in joules since the construction; NaN if a counter cannot be read. A
  /// counter wraps around after about 262 kJ, which is 20 minutes at 200 W. The energy is correct
  /// if no counter wraps around more than once between two calls.
  double read();

  /// Returns the names of the zones: "package-0, dram"; empty if the energy cannot be read.
  const std::string& zones() const { return names_; }
  /// Returns the reason why the energy cannot be read; empty if it can.
  const std::string& refusal() const { return refusal_; }

 private:
  struct Zone {
    CounterFile counter;      ///< microjoules
    std::uint64_t range = 0;  ///< the counter restarts at 0 after this value
    std::uint64_t last = 0;
  };

  /// Adds the zone, or sets the reason why the energy cannot be read.
  void open(const std::filesystem::path& path, const std::string& name);

  std::vector<Zone> zones_;
  std::string names_, refusal_;
  double microjoules_ = 0;
};

}  // namespace lockstep::core
