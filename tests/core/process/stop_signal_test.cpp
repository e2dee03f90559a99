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
