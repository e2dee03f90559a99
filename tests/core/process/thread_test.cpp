// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/thread.hpp"
#include "lockstep/core/process/openmp.hpp"
#include "lockstep/core/process/processors.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace lockstep::core {
namespace {

sigset_t current_mask() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return mask;
}

TEST(StartHelper, BlocksOnlySignalsOfOtherProcesses) {
  sigset_t mask;
  start_helper([&](const std::stop_token&) { mask = current_mask(); }).join();
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    EXPECT_EQ(sigismember(&mask, number), 1) << number;
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    EXPECT_EQ(sigismember(&mask, number), 0) << number;
  }
}

TEST(StartHelper, RestoresTheMaskOfTheCaller) {
  start_helper([](const std::stop_token&) {}).join();
  const sigset_t mask = current_mask();
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
}

/// OpenMP reads OMP_PROC_BIND when the process starts, so CTest also runs this test with it.
TEST(StartHelper, MayUseTheProcessorsOfAllThreads) {
  std::set<int> found;
  start_helper([&](const std::stop_token&) { found = allowed_processors(); }).join();
  EXPECT_EQ(found, thread_processors());
}

TEST(OpenMp, InvalidNumberOfThreadsIsIgnored) {
  const auto requested = [](const char* value) {
    ::setenv("OMP_NUM_THREADS", value, 1);
    const int threads = openmp_requested_threads();
    ::unsetenv("OMP_NUM_THREADS");
    return threads;
  };
  for (const char* value : {"", " ", "0", "-1", "abc", "1.5", "2x", "99999999999"})
    EXPECT_EQ(requested(value), 0) << "'" << value << "'";
  for (const char* value : {"3", " 3", "3 ", "3,2", "3 , 2"})
    EXPECT_EQ(requested(value), 3) << "'" << value << "'";
  EXPECT_EQ(openmp_requested_threads(), 0) << "the variable is not set";
}

}  // namespace
}  // namespace lockstep::core
