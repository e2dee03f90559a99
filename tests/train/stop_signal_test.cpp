#include "stop_signal.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace lockstep::train {
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

}  // namespace
}  // namespace lockstep::train
