#include "lockstep/core/thread.hpp"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

sigset_t current_mask() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return mask;
}

TEST(StartWithoutSignals, BlocksOnlySignalsOfOtherProcesses) {
  sigset_t mask;
  start_without_signals([&](const std::stop_token&) { mask = current_mask(); }).join();
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    EXPECT_EQ(sigismember(&mask, number), 1) << number;
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    EXPECT_EQ(sigismember(&mask, number), 0) << number;
  }
}

TEST(StartWithoutSignals, RestoresTheMaskOfTheCaller) {
  start_without_signals([](const std::stop_token&) {}).join();
  const sigset_t mask = current_mask();
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
}

}  // namespace
}  // namespace lockstep::core
