// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/process_meter.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <string>

#include "core/fake_root.hpp"
#include "lockstep/core/process/processors.hpp"

namespace lockstep::core {
namespace {

/// Writes the nanoseconds that a thread ran and waited for a processor.
void write_thread(const test::FakeRoot& root, const std::string& thread, double run, double delay) {
  root.write("proc/self/task/" + thread + "/schedstat",
             std::to_string(static_cast<long>(run)) + " " +
                 std::to_string(static_cast<long>(delay)) + " 7");
}

std::string first_thread() { return std::to_string(::getpid()); }

TEST(ProcessorMeter, MeasuresTheProcessorTimeOfTheInterval) {
  ProcessorMeter meter;
  meter.begin_interval();
  const auto begin = std::chrono::steady_clock::now();
  while (meter.interval().cpu_seconds < 0.02) {
  }
  const auto wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin);
  const ProcessorUsage usage = meter.interval();
  EXPECT_LT(usage.cpu_seconds, wall.count() + 0.02);
  EXPECT_FALSE(usage.run_delay_seconds < 0);
}

TEST(ProcessorMeter, ReportsTheDelayOfComputingThreadsOnly) {
  const test::FakeRoot root;
  ProcessorMeter meter(root.path());
  write_thread(root, first_thread(), 1e9, 1e9);
  write_thread(root, "1", 5e9, 5e9);
  meter.begin_interval();
  EXPECT_EQ(meter.interval().run_delay_seconds, 0);
  write_thread(root, first_thread(), 1e9, 1e9 + 1e3);  // sleeps, but executes the steps
  EXPECT_DOUBLE_EQ(meter.interval().run_delay_seconds, 1e-6);
  write_thread(root, "1", 5e9 + 1e3, 5e9 + 2e3);  // a loader thread, which is mostly asleep
  EXPECT_DOUBLE_EQ(meter.interval().run_delay_seconds, 1e-6);
  write_thread(root, "1", 3600e9, 5e9 + 2e6);  // ready for longer than the interval
  EXPECT_DOUBLE_EQ(meter.interval().run_delay_seconds, 2e-3);
  write_thread(root, "2", 3600e9, 3e6);  // started in the interval
  EXPECT_DOUBLE_EQ(meter.interval().run_delay_seconds, 3e-3);
}

TEST(ProcessorMeter, SumsBusyAndStolenTimeOfItsProcessors) {
  const test::FakeRoot root;
  ProcessorMeter meter(root.path());
  const int own = *allowed_processors().begin();
  const auto stat = [&](int busy, int steal, int other) {
    root.write("proc/stat", "cpu  9999 9999 9999 9999 9999 9999 9999 9999 0 0\ncpu" +
                                std::to_string(own) + " " + std::to_string(busy) +
                                " 20 30 4000 5000 60 70 " + std::to_string(steal) +
                                " 900 900\ncpu9999 " + std::to_string(other) +
                                " 1 1 1 1 1 1 1 0 0\ncpu9998 1 1 " + std::to_string(other) +
                                " 1 1 1 1 1 0 0\nintr 5");
  };
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  stat(100, 8, 1);
  meter.begin_interval();
  stat(150, 18, 21);
  EXPECT_NEAR(meter.interval().busy_seconds, 50 / ticks, 1e-9);
  EXPECT_NEAR(meter.interval().steal_seconds, 10 / ticks, 1e-9);
  EXPECT_NEAR(meter.interval().other_busy_seconds, 2 * 20 / ticks, 1e-9);
}

TEST(ProcessorMeter, CountsThrottledPeriodsOfAllItsControlGroups) {
  const test::FakeRoot root;
  root.write("proc/self/cgroup", "3:memory:/other\n0::/job/step");
  const auto write = [&](const std::string& group, int throttled) {
    root.write("sys/fs/cgroup" + group + "/cpu.stat", "usage_usec 5\nnr_periods 90\nnr_throttled " +
                                                          std::to_string(throttled) +
                                                          "\nthrottled_usec 5");
  };
  write("/job/step", 1);
  write("/job", 10);
  ProcessorMeter meter(root.path());
  meter.begin_interval();
  write("/job/step", 3);
  write("/job", 14);
  EXPECT_EQ(meter.interval().throttled_periods, 6);
}

TEST(ProcessorMeter, ReadsTheFirstVersionOfControlGroups) {
  const test::FakeRoot root;
  root.write("proc/self/cgroup", "4:cpuset:/box\n3:cpu,cpuacct:/box");
  root.write("sys/fs/cgroup/cpu/box/cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 7");
  ProcessorMeter meter(root.path());
  meter.begin_interval();
  root.write("sys/fs/cgroup/cpu/box/cpu.stat", "nr_periods 9\nnr_throttled 7\nthrottled_time 7");
  EXPECT_EQ(meter.interval().throttled_periods, 5);
}

TEST(ProcessorMeter, OnlyTheProcessorTimeIsKnownWithoutFiles) {
  const test::FakeRoot root;
  ProcessorMeter meter(root.path());
  meter.begin_interval();
  const ProcessorUsage usage = meter.interval();
  EXPECT_GE(usage.cpu_seconds, 0);
  EXPECT_TRUE(std::isnan(usage.run_delay_seconds));
  EXPECT_TRUE(std::isnan(usage.busy_seconds));
  EXPECT_TRUE(std::isnan(usage.steal_seconds));
  EXPECT_TRUE(std::isnan(usage.other_busy_seconds));
  EXPECT_TRUE(std::isnan(usage.throttled_periods));
}

}  // namespace
}  // namespace lockstep::core
