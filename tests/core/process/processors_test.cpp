// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/thread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

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
