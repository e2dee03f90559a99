// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/stop_signal.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace lockstep::core {
namespace {

TEST(StopSignal, StoresASignalAndRestoresTheHandlers) {
  auto* const before = std::signal(SIGUSR1, SIG_IGN);
  {
    StopSignal stop;
    EXPECT_FALSE(stop.requested());
    std::raise(SIGUSR1);
    EXPECT_TRUE(stop.requested());
  }
  EXPECT_EQ(std::signal(SIGUSR1, before), SIG_IGN);
  const StopSignal next;
  EXPECT_FALSE(next.requested());
}

TEST(StopSignal, MeasuresTheTimeSinceTheFirstSignal) {
  const StopSignal stop;
  EXPECT_EQ(stop.seconds(), 0);
  std::raise(SIGUSR1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::raise(SIGTERM);
  EXPECT_EQ(stop.number(), SIGTERM);
  EXPECT_GE(stop.seconds(), 0.02);
}

TEST(StopSignal, HandlesEverySignalThatAsksForAnEnd) {
  std::signal(SIGHUP, SIG_DFL);  // `nohup` ignores it
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    const StopSignal stop;
    std::raise(number);
    EXPECT_EQ(stop.number(), number);
  }
}

TEST(StopSignal, LeavesSighupIgnored) {
  auto* const before = std::signal(SIGHUP, SIG_IGN);
  {
    const StopSignal stop;
    stop.install_handlers();
    std::raise(SIGHUP);
    EXPECT_FALSE(stop.requested());
  }
  EXPECT_EQ(std::signal(SIGHUP, before), SIG_IGN);
}

TEST(StopSignal, ReplacesHandlersOfLibraries) {
  std::signal(SIGHUP, SIG_DFL);
  const StopSignal stop;
  std::signal(SIGHUP, SIG_IGN);
  stop.install_handlers();
  std::raise(SIGHUP);
  EXPECT_EQ(stop.number(), SIGHUP);
}

TEST(ProcessorTimeLimit, PrecedesTheHardLimit) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_CPU, &before), 0);
  if (before.rlim_max != RLIM_INFINITY) GTEST_SKIP() << "a hard limit cannot be raised";
  lower_processor_time_limit(1e9);
  rlimit now{};
  ::getrlimit(RLIMIT_CPU, &now);
  EXPECT_EQ(now.rlim_cur, before.rlim_cur) << "there is no hard limit";
  const auto end_with_limits = [] {
    rlimit limit{.rlim_cur = 1000, .rlim_max = 1000};
    ::setrlimit(RLIMIT_CPU, &limit);
    lower_processor_time_limit(1e9);
    ::getrlimit(RLIMIT_CPU, &limit);
    std::_Exit(limit.rlim_cur == 900 && limit.rlim_max == 1000 ? 0 : 1);
  };
  EXPECT_EXIT(end_with_limits(), testing::ExitedWithCode(0), "");
}

TEST(StopSignal, CountsTheObjects) {
  const StopSignal outer;
  {
    const StopSignal inner;
    EXPECT_EQ(StopSignal::count(), 2);
  }
  EXPECT_EQ(StopSignal::count(), 1);
}

}  // namespace
}  // namespace lockstep::core
