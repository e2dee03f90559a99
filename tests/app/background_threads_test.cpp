// Tests that the threads that monitor a run allocate no memory while they wait: an exception in a
// thread would end the process by SIGABRT instead of with the documented status. This program
// replaces operator new to count the allocations of all threads except the main thread.

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <thread>

#include "stop_limit.hpp"
#include "watchdog.hpp"

namespace {

const pthread_t main_thread = pthread_self();
std::atomic<std::int64_t> allocations{0};

/// Not inlined, because GCC would otherwise warn that `free` releases the memory of operator new.
[[gnu::noinline]] void* allocate(std::size_t bytes) {
  if (pthread_equal(pthread_self(), main_thread) == 0) ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
// The standard library also uses the form that returns null, for temporary buffers.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }

namespace lockstep::app {
namespace {

using namespace std::chrono_literals;

constexpr auto several_intervals = 350ms;

TEST(BackgroundThreads, AnAllocationInAThreadIsCounted) {
  const std::int64_t before = allocations;
  std::thread([] { ::operator delete(::operator new(1)); }).join();
  EXPECT_EQ(allocations, before + 1);
}

TEST(BackgroundThreads, WatchdogAllocatesNoMemory) {
  const std::int64_t before = allocations;
  {
    Watchdog watchdog(60s, "rank 0");
    std::this_thread::sleep_for(several_intervals);
    watchdog.set_limit(50s);
  }
  EXPECT_EQ(allocations, before);
}

TEST(BackgroundThreads, StopLimitAllocatesNoMemory) {
  Watchdog watchdog(60s, "rank 0");
  const std::int64_t before = allocations;
  {
    StopLimit limit(watchdog, {}, "rank 0", 0);
    std::this_thread::sleep_for(several_intervals);
  }
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace lockstep::app
