// SPDX-License-Identifier: BSD-3-Clause
// Tests that the threads that monitor a run allocate no memory while they wait: an exception in a
// thread would end the process by SIGABRT instead of with the documented status. The allocations of
// all threads except the main thread are counted.

#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <new>
#include <thread>

#include "count_allocations.hpp"
#include "guard/watchdog.hpp"

namespace lockstep::app {
namespace {

using namespace std::chrono_literals;

constexpr auto several_intervals = 350ms;

const pthread_t main_thread = pthread_self();

class BackgroundThreads : public ::testing::Test {
 protected:
  BackgroundThreads() {
    test::count_allocations_if(
        [](const void*, std::size_t) { return pthread_equal(pthread_self(), main_thread) == 0; });
  }

  const long before_ = test::allocations();
};

TEST_F(BackgroundThreads, AnAllocationInAThreadIsCounted) {
  std::thread([] { ::operator delete(::operator new(1)); }).join();
  EXPECT_EQ(test::allocations(), before_ + 1);
}

TEST_F(BackgroundThreads, WatchdogAllocatesNoMemory) {
  {
    Watchdog watchdog(60s, "rank 0");
    watchdog.limit_stop({}, 0);
    std::this_thread::sleep_for(several_intervals);
    watchdog.set_limit(50s);
  }
  EXPECT_EQ(test::allocations(), before_);
}

}  // namespace
}  // namespace lockstep::app
