// SPDX-License-Identifier: BSD-3-Clause
// Tests the counters of network interfaces on a directory that replaces / .

#include "lockstep/core/meter/host_meter.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/fake_root.hpp"

namespace lockstep::core {
namespace {

using ::testing::ElementsAre;

struct Device {
  std::string name;
  std::uint64_t received, sent;
};

class NetworkMeterTest : public ::testing::Test {
 protected:
  void write_devices(const std::vector<Device>& devices) const {
    std::string text =
        "Inter-|   Receive                            |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n";
    for (const Device& device : devices) {
      text += fmt::format("{:>6}:{:8} 11 12 13 14 15 16 17 {:8} 21 22 23 24 25 26 27\n",
                          device.name, device.received, device.sent);
    }
    root_.write("proc/self/net/dev", text);
  }
  void write_port(const std::string& port, std::uint64_t received, std::uint64_t sent) const {
    root_.write("sys/class/infiniband/" + port + "/counters/port_rcv_data",
                std::to_string(received));
    root_.write("sys/class/infiniband/" + port + "/counters/port_xmit_data", std::to_string(sent));
  }
  static std::vector<NetworkTraffic> read(NetworkMeter& meter) {
    std::vector<NetworkTraffic> traffic(meter.names().size());
    meter.read(traffic);
    return traffic;
  }

  test::FakeRoot root_;
};

TEST_F(NetworkMeterTest, ReturnsBytesSinceTheConstruction) {
  write_devices({{"lo", 100, 100}, {"eth0", 5000, 7000}});
  NetworkMeter meter(root_.path());
  ASSERT_THAT(meter.names(), ElementsAre("eth0", "lo")) << "the most active one comes first";
  EXPECT_EQ(read(meter)[0].received_bytes, 0);
  write_devices({{"lo", 130, 140}, {"eth0", 5001, 7002}});
  const auto traffic = read(meter);
  EXPECT_EQ(traffic[0].received_bytes, 1);
  EXPECT_EQ(traffic[0].sent_bytes, 2);
  EXPECT_EQ(traffic[1].received_bytes, 30);
  EXPECT_EQ(traffic[1].sent_bytes, 40);
}

TEST_F(NetworkMeterTest, ReadsInfinibandPortsInUnitsOfFourBytes) {
  write_devices({{"eth0", 10, 10}});
  write_port("mlx5_0/ports/1", 1000, 2000);
  NetworkMeter meter(root_.path());
  ASSERT_THAT(meter.names(), ElementsAre("mlx5_0:1", "eth0"));
  write_port("mlx5_0/ports/1", 1100, 2025);
  const auto traffic = read(meter);
  EXPECT_EQ(traffic[0].received_bytes, 400);
  EXPECT_EQ(traffic[0].sent_bytes, 100);
  EXPECT_EQ(traffic[1].sent_bytes, 0);
}

TEST_F(NetworkMeterTest, KeepsTheTrafficIfACounterRestarts) {
  write_devices({{"eth0", 1000, 0}});
  NetworkMeter meter(root_.path());
  write_devices({{"eth0", 1500, 0}});
  EXPECT_EQ(read(meter)[0].received_bytes, 500);
  write_devices({{"eth0", 20, 0}});
  EXPECT_EQ(read(meter)[0].received_bytes, 520);
}

TEST_F(NetworkMeterTest, AnInterfaceThatDisappearsIsUnknown) {
  write_devices({{"eth0", 1000, 0}, {"ib0", 10, 10}});
  NetworkMeter meter(root_.path());
  write_devices({{"ib0", 15, 10}});
  const auto traffic = read(meter);
  EXPECT_TRUE(std::isnan(traffic[0].received_bytes));
  EXPECT_EQ(traffic[1].received_bytes, 5);
}

TEST_F(NetworkMeterTest, HasNoInterfacesIfTheFilesAreMissing) {
  NetworkMeter meter(root_.path());
  EXPECT_TRUE(meter.names().empty());
  EXPECT_TRUE(read(meter).empty());
}

TEST_F(NetworkMeterTest, IgnoresLinesThatAreCutOff) {
  root_.write("proc/self/net/dev", "eth0: 1 2 3\n: \nlo\nib0: 5 1 1 1 1 1 1 1 6");
  NetworkMeter meter(root_.path());
  EXPECT_THAT(meter.names(), ElementsAre("ib0"));
}

TEST_F(NetworkMeterTest, ReadsTheMostActiveInterfacesOfMany) {
  std::vector<Device> devices;
  for (std::uint64_t i = 0; i < 100; ++i) devices.push_back({fmt::format("veth{}", i), i, 0});
  write_devices(devices);
  NetworkMeter meter(root_.path());
  ASSERT_EQ(meter.names().size(), NetworkMeter::most_interfaces);
  EXPECT_EQ(meter.names()[0], "veth99");
}

TEST(NetworkMeter, ReadsTheInterfacesOfThisHost) {
  if (!std::filesystem::exists("/proc/self/net/dev")) GTEST_SKIP() << "no /proc/net/dev";
  NetworkMeter meter;
  std::vector<NetworkTraffic> traffic(meter.names().size());
  ASSERT_FALSE(traffic.empty());
  meter.read(traffic);
  for (const NetworkTraffic& interface : traffic) EXPECT_GE(interface.received_bytes, 0);
}

}  // namespace
}  // namespace lockstep::core
