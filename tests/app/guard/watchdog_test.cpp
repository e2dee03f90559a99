// SPDX-License-Identifier: BSD-3-Clause
#include "guard/watchdog.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace lockstep::app {
namespace {

using namespace std::chrono_literals;
using std::this_thread::sleep_for;

class WatchdogDeathTest : public testing::Test {
 protected:
  WatchdogDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(WatchdogDeathTest, EndsAProcessWithoutProgressAndReportsItsActivity) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(1s, "rank 3 on node7");
        watchdog.begin(core::Activity::backward, 42);
        sleep_for(60s);
      },
      testing::ExitedWithCode(70),
      "rank 3 on node7: watchdog timeout: no progress for 1 s during backward of step 42");
}

TEST_F(WatchdogDeathTest, EndsARankWhoseLauncherHasEnded) {
  EXPECT_EXIT(
      {
        // The child of the child loses its parent. The pipe ends with the last process that has it.
        int ends[2];
        if (::pipe(ends) != 0) ::_exit(1);
        if (::fork() == 0) {
          const pid_t rank = ::fork();
          if (rank == 0) {
            Watchdog watchdog(0s, "rank 2", Parent::launcher);
            sleep_for(1800s);
          }
          sleep_for(500ms);
          ::_exit(0);
        }
        ::close(ends[1]);
        char byte = 0;
        ::_exit(::read(ends[0], &byte, 1) == 0 ? 3 : 1);
      },
      testing::ExitedWithCode(3), "rank 2: the launcher of the ranks has ended");
}

TEST_F(WatchdogDeathTest, WatchesFromTheStart) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(1s, "rank 0");
        sleep_for(60s);
      },
      testing::ExitedWithCode(70), "no progress for 1 s during program start; ");
}

TEST_F(WatchdogDeathTest, AppliesANewLimitAtOnce) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(3600s, "rank 0");
        sleep_for(200ms);
        watchdog.set_limit(1s);
        sleep_for(60s);
      },
      testing::ExitedWithCode(70), "no progress for 1 s");
}

TEST_F(WatchdogDeathTest, LeavesASlowProcessAloneThatMakesProgress) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(2s, "rank 0");
        watchdog.begin(core::Activity::backward, 1);
        for (int operation = 0; operation < 30; ++operation) {
          sleep_for(100ms);
          watchdog.advance();
        }
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(WatchdogDeathTest, LimitOf0DisablesTheWatchdog) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(1s, "rank 0");
        watchdog.set_limit(0s);
        sleep_for(1500ms);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(WatchdogDeathTest, DoesNotCountTimeInWhichTheProcessIsSuspended) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(2s, "rank 0");
        const pid_t process = ::getpid();
        if (::fork() == 0) {
          ::kill(process, SIGSTOP);
          ::sleep(3);
          ::kill(process, SIGCONT);
          _exit(0);
        }
        sleep_for(300ms);  // the process is suspended here
        sleep_for(300ms);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Watchdog, EndsAtOnce) {
  for (const auto limit : {3600s, 0s}) {
    auto shortest = std::chrono::steady_clock::duration::max();
    for (int attempt = 0; attempt < 5; ++attempt) {  // other processes may delay one
      const auto begin = std::chrono::steady_clock::now();
      { const Watchdog watchdog(limit, "rank 0"); }
      shortest = std::min(shortest, std::chrono::steady_clock::now() - begin);
    }
    // If the destructor did not notify the thread of the watchdog, the thread would sleep for at
    // least one second.
    EXPECT_LT(shortest, 900ms);
  }
}

}  // namespace
}  // namespace lockstep::app
