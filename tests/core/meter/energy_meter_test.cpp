// SPDX-License-Identifier: BSD-3-Clause
// Tests the RAPL counters on a directory that replaces /sys/class/powercap.

#include "lockstep/core/meter/host_meter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/fake_root.hpp"

namespace lockstep::core {
namespace {

using ::testing::HasSubstr;

class EnergyMeterTest : public ::testing::Test {
 protected:
  void write_zone(const std::string& directory, const std::string& name,
                  std::uint64_t microjoules) const {
    root_.write(directory + "/name", name);
    root_.write(directory + "/max_energy_range_uj", "262143328850");
    set(directory, microjoules);
  }
  void set(const std::string& directory, std::uint64_t microjoules) const {
    root_.write(directory + "/energy_uj", std::to_string(microjoules));
  }

  test::FakeRoot root_;
};

TEST_F(EnergyMeterTest, AddsPackagesAndMemory) {
  write_zone("intel-rapl:0", "package-0", 1'000'000);
  write_zone("intel-rapl:1", "package-1", 2'000'000);
  write_zone("intel-rapl:1:0", "dram", 3'000'000);
  EnergyMeter meter(root_.path());
  EXPECT_EQ(meter.refusal(), "");
  EXPECT_EQ(meter.zones(), "package-0, package-1, dram");
  EXPECT_EQ(meter.read(), 0);
  set("intel-rapl:0", 2'500'000);
  set("intel-rapl:1", 4'000'000);
  set("intel-rapl:1:0", 3'250'000);
  EXPECT_DOUBLE_EQ(meter.read(), 1.5 + 2 + 0.25);
  EXPECT_DOUBLE_EQ(meter.read(), 3.75) << "nothing was consumed since";
}

TEST_F(EnergyMeterTest, DoesNotCountEnergyTwice) {
  write_zone("intel-rapl:0", "package-0", 0);
  write_zone("intel-rapl:0:0", "core", 0);
  write_zone("intel-rapl:1", "psys", 0);
  write_zone("intel-rapl-mmio:0", "package-0", 0);
  EnergyMeter meter(root_.path());
  for (const char* zone : {"intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1", "intel-rapl-mmio:0"}) {
    set(zone, 5'000'000);
  }
  EXPECT_DOUBLE_EQ(meter.read(), 5);
}

TEST_F(EnergyMeterTest, ContinuesAfterEachWrapAround) {
  write_zone("intel-rapl:0", "package-0", 262'143'000'000);
  EnergyMeter meter(root_.path());
  set("intel-rapl:0", 671'150);
  EXPECT_NEAR(meter.read(), 1, 1e-9);  // 328,850 before and 671,150 after the wrap
  set("intel-rapl:0", 200'000'000'000);
  EXPECT_NEAR(meter.read(), 1 + 199'999.328850, 1e-6);
  set("intel-rapl:0", 0);
  EXPECT_NEAR(meter.read(), 262'143.328850 + 0.328850, 1e-6);
}

TEST_F(EnergyMeterTest, IsUnknownWithoutCounters) {
  for (const auto& directory : {root_.path(), root_.path() / "missing"}) {
    EnergyMeter meter(directory);
    EXPECT_TRUE(std::isnan(meter.read()));
    EXPECT_EQ(meter.refusal(), directory.string() + " has no RAPL counters");
    EXPECT_EQ(meter.zones(), "");
  }
}

TEST_F(EnergyMeterTest, NamesTheFileThatCannotBeRead) {
  write_zone("intel-rapl:0", "package-0", 0);
  write_zone("intel-rapl:1", "package-1", 0);
  // A link to itself fails for root too, unlike a file without permissions.
  std::filesystem::remove(root_.path() / "intel-rapl:1/energy_uj");
  std::filesystem::create_symlink("energy_uj", root_.path() / "intel-rapl:1/energy_uj");
  EnergyMeter meter(root_.path());
  EXPECT_TRUE(std::isnan(meter.read())) << "one of two packages is not the host";
  EXPECT_THAT(meter.refusal(), HasSubstr("intel-rapl:1/energy_uj: Too many levels"));
}

TEST_F(EnergyMeterTest, RejectsCountersWithoutRange) {
  write_zone("intel-rapl:0", "package-0", 0);
  root_.write("intel-rapl:0/max_energy_range_uj", "none");
  EnergyMeter meter(root_.path());
  EXPECT_TRUE(std::isnan(meter.read()));
  EXPECT_THAT(meter.refusal(), HasSubstr("max_energy_range_uj"));
}

TEST_F(EnergyMeterTest, IsUnknownWhileACounterCannotBeRead) {
  write_zone("intel-rapl:0", "package-0", 1'000'000);
  EnergyMeter meter(root_.path());
  root_.write("intel-rapl:0/energy_uj", "");
  EXPECT_TRUE(std::isnan(meter.read()));
  set("intel-rapl:0", 3'000'000);
  EXPECT_DOUBLE_EQ(meter.read(), 2);
}

}  // namespace
}  // namespace lockstep::core
