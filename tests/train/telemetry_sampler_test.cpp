// SPDX-License-Identifier: BSD-3-Clause
#include "timing/telemetry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <thread>

#include "count_allocations.hpp"
#include "lockstep/core/meter/host_meter.hpp"
#include "lockstep/core/meter/process_meter.hpp"
#include "lockstep/core/timeline.hpp"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

/// Waits until the source has been called `count` times.
void wait_for(const std::atomic<int>& calls, int count) {
  while (calls < count) std::this_thread::sleep_for(1ms);
}

TEST(SamplingIntervals, DoubleAfterEachBlockOfSamples) {
  SamplingIntervals intervals(10);
  for (std::size_t i = 0; i < SamplingIntervals::samples_per_interval; ++i) {
    ASSERT_EQ(intervals.next(), 100ms);
  }
  for (std::size_t i = 0; i < SamplingIntervals::samples_per_interval; ++i) {
    ASSERT_EQ(intervals.next(), 200ms);
  }
  EXPECT_EQ(intervals.next(), 400ms);
}

TEST(SamplingIntervals, NeverExceedTheLongest) {
  SamplingIntervals intervals(10);
  for (std::size_t i = 0; i < 40 * SamplingIntervals::samples_per_interval; ++i) intervals.next();
  EXPECT_EQ(intervals.next(), 60s);
  EXPECT_EQ(SamplingIntervals(0.001).next(), 60s);
}

// The limit of the memory includes all samples of five days, even if they are never taken.
TEST(SamplingIntervals, FiveDaysFitIntoTheMemory) {
  SamplingIntervals intervals(100);
  std::chrono::nanoseconds time{0};
  for (std::size_t i = 0; i < TelemetrySampler::most_samples; ++i) time += intervals.next();
  EXPECT_GT(time, 5 * 24h);
}

TEST(TelemetrySampler, TakesSamplesAtTheRate) {
  std::atomic<int> calls = 0;
  const double origin = core::host_seconds();
  TelemetrySampler sampler(2, 100, origin, [&](const SampleTime& time, std::span<double> row) {
    row[0] = time.seconds;
    row[1] = ++calls;
  });
  wait_for(calls, 20);
  const double before = core::host_seconds() - origin;
  const auto rows = sampler.take();
  const double seconds = core::host_seconds() - origin;
  ASSERT_GE(rows.size(), 2 * 20u);
  for (std::size_t i = 2; i + 2 < rows.size(); i += 2) {
    EXPECT_GE(rows[i], rows[i - 2]) << "sample " << i / 2;
    EXPECT_EQ(rows[i + 1], rows[i - 1] + 1) << "no sample is lost";
  }
  // Late samples are not made up for, so there are at most as many as intervals (and the last one).
  EXPECT_LE(double(rows.size()) / 2, seconds * 100 + 2);
  EXPECT_GE(rows[rows.size() - 2], before) << "taking samples takes one";
  EXPECT_LE(rows[rows.size() - 2], seconds);
}

TEST(TelemetrySampler, ReturnsEachSampleOnce) {
  std::atomic<int> calls = 0;
  TelemetrySampler sampler(1, 100, core::host_seconds(),
                           [&](const SampleTime&, std::span<double> row) { row[0] = ++calls; });
  wait_for(calls, 3);
  const auto first = sampler.take();
  const auto second = sampler.take();
  EXPECT_EQ(first.front(), 1);
  EXPECT_EQ(second.front(), first.back() + 1);
}

TEST(TelemetrySampler, DropsSamplesBeyondTheLimit) {
  std::atomic<int> calls = 0;
  TelemetrySampler sampler(
      1, 100, core::host_seconds(),
      [&](const SampleTime&, std::span<double> row) { row[0] = ++calls; }, 4);
  wait_for(calls, 4);
  std::this_thread::sleep_for(50ms);
  EXPECT_THAT(sampler.take(), ::testing::ElementsAre(1, 2, 3, 4));
  wait_for(calls, 6);
  EXPECT_EQ(sampler.take().front(), 5) << "it goes on after the samples have been taken";
}

TEST(TelemetrySampler, MeasuresItsProcessorTime) {
  std::atomic<int> calls = 0;
  std::atomic<double> last = 0;
  TelemetrySampler sampler(1, 100, core::host_seconds(),
                           [&](const SampleTime& time, std::span<double>) {
                             last = time.cpu_seconds;
                             const double begin = core::host_seconds();
                             while (core::host_seconds() < begin + 2e-3) {
                             }
                             ++calls;
                           });
  wait_for(calls, 5);
  EXPECT_GT(last, 1e-4);
  EXPECT_LT(last, 60);
}

TEST(TelemetrySampler, StopsAtOnce) {
  const double begin = core::host_seconds();
  {
    TelemetrySampler sampler(1, 0.02, begin, [](const SampleTime&, std::span<double>) {});
  }
  EXPECT_LT(core::host_seconds() - begin, 20) << "the interval is 50 s";
}

TEST(TelemetrySampler, AllocatesNoMemoryAfterTheStart) {
  const core::ProcessMeter process;
  core::NetworkMeter network;
  core::EnergyMeter energy;
  std::vector<core::NetworkTraffic> traffic(network.names().size());
  std::atomic<int> calls = 0;
  std::atomic<double> checked = 0;
  TelemetrySampler sampler(1, 100, core::host_seconds(),
                           [&](const SampleTime&, std::span<double> row) {
                             network.read(traffic);
                             checked = process.read().resident_bytes + energy.read();
                             row[0] = ++calls;
                           });
  wait_for(calls, 3);
  const long before = test::allocations();
  wait_for(calls, 20);
  EXPECT_EQ(test::allocations(), before);
}

}  // namespace
}  // namespace lockstep::train
