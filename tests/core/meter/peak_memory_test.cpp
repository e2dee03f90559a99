// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/meter/process_meter.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace lockstep::core {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Touches `bytes` bytes of memory and returns them to the system.
void touch_and_release(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  for (std::size_t i = 0; i < bytes; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
  ::munmap(memory, bytes);
}

bool can_reset_the_peak() { return ::access("/proc/self/clear_refs", W_OK) == 0; }

TEST(PeakMemory, IncludesReleasedMemory) {
  if (!can_reset_the_peak()) GTEST_SKIP() << "/proc/self/clear_refs is not writable";
  PeakMemory peak;
  peak.begin_interval();
  const std::uint64_t before = peak.interval();
  touch_and_release(64 * mebibyte);
  EXPECT_GT(peak.interval(), before + 48 * mebibyte);
}

TEST(PeakMemory, DoesNotIncludeEarlierIntervals) {
  if (!can_reset_the_peak()) GTEST_SKIP() << "/proc/self/clear_refs is not writable";
  PeakMemory peak;
  peak.begin_interval();
  touch_and_release(64 * mebibyte);
  const std::uint64_t first = peak.interval();
  peak.begin_interval();
  touch_and_release(8 * mebibyte);
  EXPECT_LT(peak.interval(), first - 32 * mebibyte);
}

TEST(PeakMemory, TotalIncludesAllIntervals) {
  if (!can_reset_the_peak()) GTEST_SKIP() << "/proc/self/clear_refs is not writable";
  PeakMemory peak;
  peak.begin_interval();
  touch_and_release(64 * mebibyte);
  const std::uint64_t first = peak.interval();
  peak.begin_interval();
  peak.begin_interval();
  EXPECT_GE(peak.total(), first);
}

}  // namespace
}  // namespace lockstep::core
