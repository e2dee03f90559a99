// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/process_meter.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "core/fake_root.hpp"

namespace lockstep::core {
namespace {

TEST(ProcessMeter, CountsTheProcessorTimeOfAllThreads) {
  const ProcessMeter meter;
  const ProcessUsage before = meter.read();
  std::jthread([&] {
    while (meter.read().user_seconds + meter.read().system_seconds <
           before.user_seconds + before.system_seconds + 0.02) {
    }
  }).join();
  const ProcessUsage after = meter.read();
  EXPECT_GE(after.user_seconds + after.system_seconds,
            before.user_seconds + before.system_seconds + 0.02);
  EXPECT_LT(after.user_seconds + after.system_seconds, 3600);
}

TEST(ProcessMeter, CountsTheSwitchesOfAThreadThatWaits) {
  const ProcessMeter meter;
  const double before = meter.read().voluntary_switches;
  for (int i = 0; i < 20; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(meter.read().voluntary_switches, before + 20);
}

TEST(ProcessMeter, ResidentMemoryGrowsWithTheMemoryThatIsWritten) {
  const ProcessMeter meter;
  const double before = meter.read().resident_bytes;
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const std::vector<char> written(bytes, 1);
  const double after = meter.read().resident_bytes;
  EXPECT_GT(after, before + 0.5 * double(bytes)) << written.size();
  EXPECT_LT(after, before + 1.5 * double(bytes));
}

TEST(ProcessMeter, OnlyTheMemoryIsUnknownIfTheFileIsMissing) {
  const test::FakeRoot root;
  const ProcessUsage usage = ProcessMeter(root.path()).read();
  EXPECT_TRUE(std::isnan(usage.resident_bytes));
  EXPECT_GT(usage.user_seconds + usage.system_seconds, 0);
}

}  // namespace
}  // namespace lockstep::core
