// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/system.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

namespace lockstep::core {
namespace {

TEST(System, ReturnsHostProcessorsAndMemory) {
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(host_name(), host);
  EXPECT_NE(cpu_model(), "");
  // MemTotal does not include the memory that the kernel reserves, which is less than a quarter of
  // the physical memory.
  const auto physical =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  EXPECT_NEAR(static_cast<double>(installed_memory()), physical, physical / 4);
  EXPECT_GT(available_host_memory().value_or(0), 0U);
  EXPECT_LE(available_host_memory().value_or(0), installed_memory());
}

TEST(ResidentMemory, GrowsWithTheMemoryThatIsWritten) {
  const ResidentMemory before = resident_memory();
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const std::vector<char> written(bytes, 1);
  const ResidentMemory after = resident_memory();
  // Only half of the growth is required, because other memory may be released at the same time.
  EXPECT_GT(after.now, before.now + bytes / 2) << written.size();
  EXPECT_GE(after.peak, after.now);
}

TEST(System, CacheDirectoryFollowsTheEnvironment) {
  ::setenv("LOCKSTEP_CACHE_DIR", "/some/where", 1);
  EXPECT_EQ(cache_directory(), "/some/where");
  ::setenv("LOCKSTEP_CACHE_DIR", "", 1);
  EXPECT_TRUE(cache_directory().empty());
  ::unsetenv("LOCKSTEP_CACHE_DIR");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_directory(), "/x/lockstep");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(cache_directory(), "/h/.cache/lockstep");
}

}  // namespace
}  // namespace lockstep::core
