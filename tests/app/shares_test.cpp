// SPDX-License-Identifier: BSD-3-Clause
#include "shares.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::app {
namespace {

using ::testing::HasSubstr;

/// Returns two ranks on the processors 0 to 7 of one host.
std::vector<record::RankInfo> two_ranks() {
  record::RankInfo rank;
  rank.cpu_list = rank.core_list = "0-7";
  return {rank, rank};
}

ThreadCount threads_with(const ThreadBounds& bounds) {
  return default_threads(two_ranks(), 0, bounds);
}

TEST(DefaultThreads, AreTheCoresUnlessAnotherBoundIsLower) {
  constexpr int unlimited = 1000;
  EXPECT_EQ(threads_with({0, unlimited, {}, {}}).threads, 4);
  EXPECT_EQ(threads_with({0, unlimited, {}, {}}).reason, cores_per_rank);

  const ThreadCount requested = threads_with({6, unlimited, {{1, "quota", "1:7"}}, {{"1:7"}}});
  EXPECT_EQ(requested.threads, 6) << "the user has more knowledge";
  EXPECT_EQ(requested.reason, "OMP_NUM_THREADS");

  const std::vector<core::Limit> quota{{5.5, "cpu.max", "1:7"}};
  const ThreadCount shared = threads_with({0, unlimited, quota, {{"1:7"}, {"1:7"}}});
  EXPECT_EQ(shared.threads, 2);
  EXPECT_THAT(shared.reason, HasSubstr("CPU quota of cpu.max"));
  EXPECT_EQ(threads_with({0, unlimited, quota, {{"1:7"}, {"1:8"}}}).threads, 4);
  EXPECT_EQ(threads_with({0, unlimited, {{0.2, "cpu.max", "1:7"}}, {{"1:7"}}}).threads, 1);

  EXPECT_EQ(threads_with({6, 3, {}, {}}).threads, 3);
  EXPECT_EQ(threads_with({6, 3, {}, {}}).reason, "OMP_THREAD_LIMIT");
}

TEST(CompilerThreads, AreTheProcessorsUnlessAQuotaIsLower) {
  EXPECT_EQ(compiler_threads(two_ranks(), 0, {}, {}), 4);
  const std::vector<core::Limit> quota{{5.5, "cpu.max", "1:7"}};
  EXPECT_EQ(compiler_threads(two_ranks(), 1, quota, {{"1:7"}, {"1:7"}}), 2);
  EXPECT_EQ(compiler_threads(two_ranks(), 1, {{0.2, "cpu.max", "1:7"}}, {{"1:7"}}), 1);
}

TEST(ExceededQuota, NamesAQuotaOfFewerProcessorsThanThreads) {
  const std::vector<core::Limit> quotas{{4, "job/cpu.max", "1:2"}, {2, "step/cpu.max", "1:7"}};
  const Domains domains{{"1:2", "1:7"}, {"1:2"}, {}};
  EXPECT_EQ(exceeded_quota(quotas, domains, {2, 2, 9}), "");
  EXPECT_THAT(exceeded_quota(quotas, domains, {3, 1, 9}),
              HasSubstr("3 threads share a CPU quota of 2.00 processors (step"));
  EXPECT_THAT(exceeded_quota(quotas, domains, {2, 3, 9}),
              HasSubstr("5 threads share a CPU quota of 4.00 processors (job"));
}

}  // namespace
}  // namespace lockstep::app
