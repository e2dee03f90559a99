// SPDX-License-Identifier: BSD-3-Clause
#include "shares.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns a rank on host number `host` that may run on the processors `list`, for example "0-3,8".
/// `cores`: the list of their physical cores; by default, each processor is one core. All hosts
/// have the same name, as clones of one virtual machine may have.
record::RankInfo rank_on(int host, const std::string& list, const std::string& cores = "") {
  record::RankInfo info;
  info.core_list = cores.empty() ? list : cores;
  info.host = host;
  info.hostname = "localhost";
  info.cpu_list = list;
  return info;
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

TEST(Binding, RanksWithCommonPlacesOfOneHostAreNamed) {
  const auto warning = [](const char* last, bool last_is_bound) {
    return common_places({rank_on(0, "0-1"), rank_on(1, "0-1"), rank_on(0, last)},
                         {true, true, last_is_bound});
  };
  EXPECT_THAT(warning("0-1", true), HasSubstr("ranks 0 and 2"));
  EXPECT_THAT(warning("1-3", true), HasSubstr("ranks 0 and 2"));
  EXPECT_EQ(warning("2-3", true), "");
  EXPECT_EQ(warning("0-1", false), "");
}

TEST(Binding, HardwareThreadsOfACoreCountOnce) {
  const std::vector ranks{rank_on(0, "0-7", "0-3"), rank_on(0, "0-7", "0-3")};
  EXPECT_EQ(fair_threads(ranks, 0), 2);
  EXPECT_EQ(compiler_threads(ranks, 0, {}, {}), 4) << "compilers use them all";
  EXPECT_EQ(oversubscription(ranks, {2, 2}), "");
  EXPECT_THAT(oversubscription(ranks, {2, 3}), HasSubstr("5 threads share 4 physical cores"));
  EXPECT_THAT(oversubscription(ranks, {8, 1}), HasSubstr("9 threads share 8 processors"));
}

int alone(int processor) { return processor; }

TEST(Binding, RanksWithTheSameProcessorsGetEqualParts) {
  const std::vector ranks{rank_on(0, "0-6"), rank_on(0, "0-6"), rank_on(1, "0-6"),
                          rank_on(0, "0-6")};
  const std::vector threads{2, 2, 7, 3};
  EXPECT_THAT(share_of_processors(ranks, threads, 0, alone), ElementsAre(0, 1));
  EXPECT_THAT(share_of_processors(ranks, threads, 1, alone), ElementsAre(2, 3));
  EXPECT_THAT(share_of_processors(ranks, threads, 3, alone), ElementsAre(4, 5, 6));
  EXPECT_TRUE(share_of_processors(ranks, threads, 2, alone).empty()) << "alone on its host";
}

TEST(Binding, PartsConsistOfWholeCores) {
  const std::vector ranks{rank_on(0, "0-7", "0-3"), rank_on(0, "0-7", "0-3")};
  const auto core_of = [](int processor) { return processor % 4; };
  EXPECT_THAT(share_of_processors(ranks, {1, 2}, 0, core_of), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(share_of_processors(ranks, {1, 2}, 1, core_of), ElementsAre(2, 3, 6, 7));
}

TEST(Binding, RanksAreNotBoundWithoutACoreForEveryThread) {
  const std::vector ranks{rank_on(0, "0-3"), rank_on(0, "0-3")};
  EXPECT_TRUE(share_of_processors(ranks, {3, 1}, 0, alone).empty());
  EXPECT_TRUE(share_of_processors(ranks, {3, 1}, 1, alone).empty());
  const std::vector crowded{rank_on(0, "0"), rank_on(0, "0")};
  EXPECT_TRUE(share_of_processors(crowded, {1, 1}, 0, alone).empty());
}

TEST(Binding, RanksThatTheLauncherHasBoundAreNotBoundAgain) {
  const std::vector ranks{rank_on(0, "0-1"), rank_on(0, "2-3")};
  EXPECT_TRUE(share_of_processors(ranks, {2, 2}, 0, alone).empty());
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
