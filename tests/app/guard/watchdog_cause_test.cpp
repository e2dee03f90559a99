// SPDX-License-Identifier: BSD-3-Clause
#include "guard/watchdog_peers.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::app {
namespace {

using enum core::Activity;

RankStatus at(int rank, core::Activity activity, std::int64_t step, double idle_seconds) {
  return {rank, "n" + std::to_string(rank), true, {activity, step, idle_seconds}};
}

TEST(DescribeCause, NamesRanksThatDoNotAnswer) {
  const RankStatus silent{2, "n2", false, {}};
  EXPECT_EQ(describe_cause(std::vector{at(0, exposed_communication, 3, 5), silent}),
            "rank 2 on n2 does not answer (stopped, dead or unreachable)");
  const RankStatus other{4, "n4", false, {}};
  EXPECT_EQ(describe_cause(std::vector{at(0, exposed_communication, 3, 5), silent, other}),
            "rank 2 on n2, rank 4 on n4 do not answer (stopped, dead or unreachable)");
}

TEST(DescribeCause, NamesTheRankThatIsBlockedWithoutWaiting) {
  EXPECT_EQ(
      describe_cause(std::vector{at(0, exposed_communication, 7, 5.1), at(1, data_wait, 7, 5),
                                 at(2, exposed_communication, 7, 5)}),
      "rank 1 on n1 has been in data_wait of step 7 without progress for 5.0 s, while 2 ranks are "
      "in "
      "exposed_communication of step 7");
}

TEST(DescribeCause, NamesTheRankThatMakesProgressWhileOthersWait) {
  EXPECT_TRUE(describe_cause(
                  std::vector{at(0, writing_run_file, 8, 0.5), at(1, exposed_communication, 9, 5)})
                  .starts_with("rank 0 on n0 has been in writing the run file"));
}

TEST(DescribeCause, NamesTheRankThatDiffersFromTheMajority) {
  EXPECT_TRUE(
      describe_cause(std::vector{at(0, combining_results, 7, 5), at(1, exposed_communication, 8, 5),
                                 at(2, combining_results, 7, 5.2)})
          .starts_with("rank 1 on n1 has been in exposed_communication of step 8"));
}

TEST(DescribeCause, NamesTheRankThatIsAheadWithoutMajority) {
  EXPECT_TRUE(describe_cause(
                  std::vector{at(0, combining_results, 7, 5.3), at(1, exposed_communication, 8, 5)})
                  .starts_with("rank 1 "));
  EXPECT_TRUE(
      describe_cause(std::vector{at(0, exposed_communication, 7, 5), at(1, mpi_finalize, 0, 5)})
          .starts_with("rank 1 on n1 has been in MPI_Finalize without"));
}

TEST(DescribeCause, NamesTheRankThatHasWaitedLongestIfAllAreInTheSameActivity) {
  EXPECT_EQ(
      describe_cause(std::vector{at(0, loading_data, 0, 4), at(1, loading_data, 0, 5)}),
      "rank 1 on n1 has been in loading the data without progress for 5.0 s, longer than other "
      "ranks");
}

}  // namespace
}  // namespace lockstep::app
