// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/process/limits.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>

#include "core/fake_root.hpp"

namespace lockstep::core {
namespace {

using test::FakeRoot;

constexpr double mega = 1e6;

/// Returns the smallest limit whose source is a file below `root`; -1 if there is none.
double least_below(const FakeRoot& root, const std::vector<Limit>& limits) {
  double least = -1;
  for (const Limit& limit : limits) {
    if (limit.source.starts_with(root.path().string()) && (least < 0 || limit.value < least))
      least = limit.value;
  }
  return least;
}

double memory_below(const FakeRoot& root) { return least_below(root, memory_limits(root.path())); }

TEST(MemoryLimits, AreThoseOfTheOwnGroupAndItsParents) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "0::/job/step");
  EXPECT_EQ(memory_below(root), -1);
  const auto write = [&](const std::string& group, const std::string& most, int used) {
    root.write("sys/fs/cgroup" + group + "/memory.max", most);
    root.write("sys/fs/cgroup" + group + "/memory.current", std::to_string(used));
  };
  write("/job/step", "max", 50'000'000);
  write("/job", "900000000", 100'000'000);
  EXPECT_EQ(memory_below(root), 800 * mega);
  write("/job/step", "300000000", 50'000'000);
  EXPECT_EQ(memory_below(root), 250 * mega);
  root.write("sys/fs/cgroup/job/step/memory.high", "200000000");
  EXPECT_EQ(memory_below(root), 150 * mega);
  write("/job", "100000000", 110'000'000);
  EXPECT_EQ(memory_below(root), 0);
}

TEST(MemoryLimits, PageCacheIsNotUsedMemory) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "5:memory:/\n0::/");
  root.write("sys/fs/cgroup/memory.max", "4000000000");
  root.write("sys/fs/cgroup/memory.current", "3950000000");
  root.write("sys/fs/cgroup/memory.stat",
             "anon 150000000\ninactive_file 3700000000\n"
             "active_file 100000000");
  EXPECT_EQ(memory_below(root), 3850 * mega);
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1900000000");
  root.write("sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 1500000000");
  EXPECT_EQ(memory_below(root), 1600 * mega);
}

TEST(MemoryLimits, LargestNumberOfTheFirstVersionIsNoLimit) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "5:memory:/");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1900000000");
  EXPECT_EQ(memory_below(root), -1);
}

struct GroupCase {
  const char *name, *cgroup, *folder, *mountinfo = "";
};
class Groups : public ::testing::TestWithParam<GroupCase> {};

TEST_P(Groups, AreFound) {
  const FakeRoot root;
  root.write("proc/self/cgroup", GetParam().cgroup);
  root.write("proc/self/mountinfo", GetParam().mountinfo);
  const std::string folder = GetParam().folder;
  const bool is_first = folder.find("memory") != std::string::npos;
  root.write(folder + (is_first ? "/memory.limit_in_bytes" : "/memory.max"), "500000000");
  root.write(folder + (is_first ? "/memory.usage_in_bytes" : "/memory.current"), "100000000");
  EXPECT_EQ(memory_below(root), 400 * mega);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Groups,
    ::testing::Values(
        GroupCase{"Hybrid", "4:memory:/job\n0::/job", "sys/fs/cgroup/memory/job"},
        GroupCase{"FirstVersionInAContainer", "4:memory:/docker/1f", "sys/fs/cgroup/memory"},
        GroupCase{"SubgroupInAContainer", "4:memory:/docker/1f/job/step",
                  "sys/fs/cgroup/memory/job/step"},
        GroupCase{"SubgroupOfTheSecondVersion", "0::/docker/1f/job", "sys/fs/cgroup/job"},
        GroupCase{"GroupIsNotVisible", "0::/kubepods/pod7/1f", "sys/fs/cgroup"},
        GroupCase{"GroupIsOutsideOfTheNamespace", "0::/../other", "sys/fs/cgroup"},
        GroupCase{"NameWithABlank", "0::/a b/c", "sys/fs/cgroup/a b/c"},
        GroupCase{"HybridWithMounts", "4:memory:/job\n0::/job", "sys/fs/cgroup/memory/job",
                  "30 25 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw\n"
                  "31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n"
                  "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"},
        GroupCase{"GroupIsTheRootOfTheMount", "4:memory:/docker/1f/job", "sys/fs/cgroup/memory/job",
                  "32 30 0:28 /docker/1f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"},
        GroupCase{"MountRootOutsideOfTheNamespace", "0::/kubepods/pod7/1f", "sys/fs/cgroup",
                  "31 30 0:27 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw"},
        GroupCase{"AnotherPlaceWithABlank", "0::/a b/c", "groups of all/a b/c",
                  "31 30 0:27 / /groups\\040of\\040all ro - cgroup2 cgroup rw"},
        GroupCase{"AnotherPlaceOfTheFirstVersion", "4:memory:/job", "dev/cgroups/memory/job",
                  "32 30 0:28 / /dev/cgroups/memory rw shared:7 - cgroup none rw,memory"},
        GroupCase{"SecondMountShowsTheGroup", "0::/job", "all/job",
                  "31 30 0:27 /box /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
                  "33 30 0:27 / /all ro - cgroup2 cgroup rw"}),
    [](const auto& instance) { return instance.param.name; });

TEST(MemoryLimits, IncludeTheAddressSpace) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = rlim_t{1} << 45;  // sanitizers reserve 16 TiB
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &lower), 0);
  const auto limits = memory_limits();
  ::setrlimit(RLIMIT_AS, &before);
  const auto found = std::ranges::find(limits, "RLIMIT_AS (ulimit -v)", &Limit::source);
  ASSERT_NE(found, limits.end());
  EXPECT_GT(found->value, 0);
  EXPECT_LT(found->value, 0x1p45);
}

TEST(ProcessorQuotas, AreThoseOfAllGroups) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "3:cpu,cpuacct:/box\n0::/job/step");
  root.write("sys/fs/cgroup/job/step/cpu.max", "max 100000");
  EXPECT_TRUE(processor_quotas(root.path()).empty());
  root.write("sys/fs/cgroup/job/cpu.max", "150000 100000");
  root.write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1");
  root.write("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000");
  EXPECT_EQ(least_below(root, processor_quotas(root.path())), 1.5);
  root.write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000");
  EXPECT_EQ(least_below(root, processor_quotas(root.path())), 0.5);
}

TEST(ThreadLimits, AreThoseOfTheGroups) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "0::/job");
  root.write("sys/fs/cgroup/job/pids.max", "max");
  EXPECT_EQ(least_below(root, thread_limits(root.path())), -1);
  root.write("sys/fs/cgroup/job/pids.max", "20");
  EXPECT_EQ(least_below(root, thread_limits(root.path())), 20);
}

TEST(SmallestShare, DividesALimitAmongTheProcessesOfItsDomain) {
  const std::vector<Limit> limits{{900, "host", "host"}, {500, "own", "1:7"}, {400, "process", ""}};
  EXPECT_EQ(smallest_share(limits, {{"host", "1:7"}}).value, 400);
  EXPECT_EQ(smallest_share(limits, {{"host", "1:7"}, {"host", "1:8"}}).value, 400);
  const Limit share = smallest_share(limits, {{"host", "1:7"}, {"host", "1:8"}, {"host"}});
  EXPECT_EQ(share.value, 300);
  EXPECT_EQ(share.source, "host");
  EXPECT_EQ(smallest_share(limits, {{"1:7"}, {"1:7"}}).value, 250);
}

}  // namespace
}  // namespace lockstep::core
