// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>

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
  ~NetworkMeter();

  /// Returns the names of the interfaces, for example "eth0" or "mlx5_0:1" (adapter and port).
  std::span<const std::string> names() const;

  /// Reads the traffic of all interfaces, in the order of `names`. `traffic` has one element per
  /// interface.
  void read(std::span<NetworkTraffic> traffic);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::core
