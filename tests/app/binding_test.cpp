#include "binding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

record::RankInfo rank_on(const std::string& host, const std::string& list) {
  record::RankInfo info;
  info.hostname = host;
  info.cpu_list = list;
  return info;
}

TEST(Binding, ReadsListsOfProcessors) {
  EXPECT_THAT(processors("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(processors("5"), ElementsAre(5));
  EXPECT_TRUE(processors("").empty());
}

TEST(Binding, RanksShareTheProcessorsTheyHaveInCommon) {
  const std::vector ranks{rank_on("a", "0-7"), rank_on("a", "0-7"), rank_on("b", "0-7"),
                          rank_on("c", "0-1"), rank_on("c", "2-7")};
  EXPECT_EQ(fair_threads(ranks, 0), 4);
  EXPECT_EQ(fair_threads(ranks, 2), 8);
  EXPECT_EQ(fair_threads(ranks, 3), 2);
  EXPECT_EQ(fair_threads(ranks, 4), 6);
  EXPECT_EQ(fair_threads({rank_on("a", "0"), rank_on("a", "0")}, 1), 1);
}

TEST(Binding, WarnsOfMoreThreadsThanProcessors) {
  const std::vector ranks{rank_on("a", "0-3"), rank_on("a", "0-3"), rank_on("b", "0-3")};
  EXPECT_EQ(oversubscription(ranks, {2, 2, 4}), "");
  EXPECT_THAT(oversubscription(ranks, {2, 3, 4}), HasSubstr("5 threads"));
}

}  // namespace
}  // namespace lockstep::app
