// SPDX-License-Identifier: BSD-3-Clause
#include "launcher.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "core/fake_root.hpp"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;
using core::test::FakeRoot;

const Launch launch{"mpirun", "", "SIZE", 2, 0};

void add_process(const FakeRoot& root, const std::string& process, const std::string& environment,
                 int parent, const std::string& users) {
  const std::string folder = "proc/" + process;
  root.write(folder + "/status", "Name:\tbash\nPPid:\t" + std::to_string(parent));
  root.write(folder + "/environ", environment);
  fs::create_directories(root.path() / folder / "ns");
  if (!users.empty()) fs::create_symlink(users, root.path() / folder / "ns/user");
}

/// Separates this process, whose parent is a shell, from mpirun.
Separation separation(const std::string& own_users, const std::string& uid_map,
                      const std::string& users_of_mpirun, int parent_of_shell = 7) {
  const FakeRoot root;
  const std::string launched("A=b\0SIZE=2\0", 11);
  add_process(root, "self", launched, 8, own_users);
  root.write("proc/self/uid_map", uid_map);
  add_process(root, "8", launched, parent_of_shell, own_users);
  add_process(root, "7", std::string("MY_SIZE=2\0", 10), 1, users_of_mpirun);
  return separation_from(launch, 8, root.path());
}

TEST(Separation, IsNoneInTheNamespacesOfTheLauncher) {
  const std::string all = "0 0 4294967295";
  EXPECT_FALSE(separation("user:[1]", all, "user:[1]").by_users);
  EXPECT_FALSE(separation("user:[1]", all, "").by_users) << "the launcher belongs to root";
  const Separation container = separation("user:[2]", "0 1000 1", "user:[2]");
  EXPECT_FALSE(container.by_users) << "mpirun runs in the container";
  EXPECT_FALSE(container.by_process_ids);
}

TEST(Separation, OfUsersAndProcessIdsIsFound) {
  EXPECT_TRUE(separation("user:[2]", "0 1000 1", "user:[1]").by_users);
  EXPECT_FALSE(separation("user:[2]", "0 1000 1", "user:[1]").by_process_ids);
  EXPECT_TRUE(separation("user:[1]", "0 0 4294967295", "user:[1]", 0).by_process_ids);
  EXPECT_TRUE(separation_from(launch, 0, "/").by_process_ids);
}

TEST(RestrictedPtrace, IsASettingOfYama) {
  const FakeRoot root;
  EXPECT_FALSE(restricts_ptrace(root.path()));
  for (const auto& [scope, is_restricted] :
       {std::pair{"0\n", false}, {"1\n", true}, {"3\n", true}}) {
    root.write("proc/sys/kernel/yama/ptrace_scope", scope);
    EXPECT_EQ(restricts_ptrace(root.path()), is_restricted) << scope;
  }
}

}  // namespace
}  // namespace lockstep::comm
