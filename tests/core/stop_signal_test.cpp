#include "lockstep/core/stop_signal.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
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
