#include "binding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns a rank on host number `host` that may run on the processors `list`, for example "0-3,8".
/// All hosts have the same name, as clones of one virtual machine may have.
record::RankInfo rank_on(int host, const std::string& list) {
  record::RankInfo info;
  info.host = host;
  info.hostname = "localhost";
  info.cpu_list = list;
  return info;
}

TEST(Binding, ReadsListsOfProcessors) {
  EXPECT_THAT(processors("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(processors("5"), ElementsAre(5));
  EXPECT_TRUE(processors("").empty());
}

TEST(Binding, RanksOfOneHostShareTheProcessorsTheyHaveInCommon) {
  const std::vector ranks{rank_on(0, "0-7"), rank_on(0, "0-7"), rank_on(1, "0-7"),
                          rank_on(2, "0-1"), rank_on(2, "2-7")};
  EXPECT_EQ(fair_threads(ranks, 0), 4);
  EXPECT_EQ(fair_threads(ranks, 2), 8);
  EXPECT_EQ(fair_threads(ranks, 3), 2);
  EXPECT_EQ(fair_threads(ranks, 4), 6);
  EXPECT_EQ(fair_threads({rank_on(0, "0"), rank_on(0, "0")}, 1), 1);
}

TEST(Binding, WarnsOfMoreThreadsThanProcessorsOnOneHost) {
  const std::vector ranks{rank_on(0, "0-3"), rank_on(0, "0-3"), rank_on(1, "0-3")};
  EXPECT_EQ(oversubscription(ranks, {2, 2, 4}), "");
  EXPECT_THAT(oversubscription(ranks, {2, 3, 4}), HasSubstr("5 threads"));
}

TEST(Binding, WarnsOfRanksThatShareAGpu) {
  std::vector ranks{rank_on(0, "0-3"), rank_on(0, "0-3"), rank_on(1, "0-3")};
  EXPECT_EQ(shared_gpu(ranks), "") << "processors have no identity";
  for (auto& rank : ranks) rank.device_uuid = "GPU-1";
  EXPECT_THAT(shared_gpu(ranks), HasSubstr("ranks 0 and 1 share a GPU"));
  ranks[1].device_uuid = "GPU-2";
  EXPECT_EQ(shared_gpu(ranks), "") << "equal identities on two hosts";
}

}  // namespace
}  // namespace lockstep::app
