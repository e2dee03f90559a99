// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/processors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace {
std::size_t possible_processors = 0;  // of a simulated kernel
}

// As the kernel, rejects a mask with fewer bits than there are possible processors.
extern "C" int sched_getaffinity(pid_t process, std::size_t bytes, cpu_set_t* mask) {
  if (8 * bytes < possible_processors) {
    errno = EINVAL;
    return -1;
  }
  std::memset(mask, 0, bytes);
  return ::syscall(SYS_sched_getaffinity, process, bytes, mask) < 0 ? -1 : 0;
}

namespace lockstep::core {
namespace {

using ::testing::ElementsAre;

TEST(Processors, TextsAndSetsAreEquivalent) {
  EXPECT_THAT(processors_in("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(processors_in("5"), ElementsAre(5));
  EXPECT_TRUE(processors_in("").empty());
  EXPECT_EQ(processor_list({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(processor_list({0, 2, 3}), "0,2-3");
  EXPECT_EQ(processor_list({}), "");
}

TEST(Processors, AreFoundOnAKernelForMoreThan1024) {
  const std::set<int> before = allowed_processors();
  possible_processors = 8192;
  EXPECT_EQ(allowed_processors(), before);
  possible_processors = 0;
}

TEST(Processors, CoreIsNamedByItsLowestProcessor) {
  for (const int processor : allowed_processors()) {
    const int core = core_of(processor);
    EXPECT_LE(core, processor);
    EXPECT_EQ(core_of(core), core);
  }
  EXPECT_EQ(core_of(1 << 20), 1 << 20) << "there is no such processor";
}

TEST(Processors, BoundThreadAndThreadsThatItStartsUseOnlyTheGivenProcessors) {
  const std::set<int> before = allowed_processors();
  ASSERT_FALSE(before.empty());
  const std::set<int> one{*before.rbegin()};
  std::set<int> bound, inherited;
  std::thread([&] {
    ASSERT_TRUE(bind_to(one));
    bound = allowed_processors();
    std::thread([&] { inherited = allowed_processors(); }).join();
  }).join();
  EXPECT_EQ(bound, one);
  EXPECT_EQ(inherited, one);
  EXPECT_EQ(allowed_processors(), before);
  EXPECT_FALSE(bind_to({})) << "a thread needs a processor";
}

}  // namespace
}  // namespace lockstep::core
