// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/core/trust.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "temporary_directory.hpp"

namespace lockstep::core {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Trust : public testing::Test {
 protected:
  /// Returns a new file with these permissions.
  fs::path file(mode_t mode) const {
    const fs::path path = folder_ / "file";
    std::ofstream(path) << "x";
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  const TemporaryDirectory directory_;
  const fs::path folder_ = directory_.path();
};

TEST_F(Trust, OwnFilesThatOthersCanOnlyReadAreTrusted) {
  for (const mode_t mode : {0600, 0644, 0755}) EXPECT_EQ(distrust(file(mode)), "") << mode;
  EXPECT_EQ(distrust(folder_), "");
  EXPECT_EQ(distrust("/"), "") << "root is trusted";
  EXPECT_EQ(distrust(folder_ / "missing"), "");
}

TEST_F(Trust, FilesThatEveryoneCanWriteAreNotTrusted) {
  EXPECT_THAT(distrust(file(0646)), HasSubstr("permissions are 646"));
  ASSERT_EQ(::chmod(folder_.c_str(), 01777), 0);
  EXPECT_THAT(distrust(folder_), HasSubstr("permissions are 1777"));
}

TEST_F(Trust, LinksAreFollowed) {
  fs::create_symlink(file(0666), folder_ / "link");
  EXPECT_THAT(distrust(folder_ / "link"), HasSubstr("other users can write"));
}

TEST_F(Trust, GroupsAndOwnersOtherThanTheUserAreNotTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  const fs::path path = file(0660);
  EXPECT_EQ(distrust(path), "") << "the group of root";
  ASSERT_EQ(::chown(path.c_str(), 0, 4321), 0);
  EXPECT_THAT(distrust(path), HasSubstr("permissions are 660"));
  ASSERT_EQ(::chown(path.c_str(), 4321, 4321), 0);
  EXPECT_EQ(distrust(path), "the user 4321 owns it");
  EXPECT_EQ(distrust(path, 4321), "") << "an owner that is trusted as well";
}

TEST_F(Trust, TheRiskOfADirectoryIsHighIfAnyUserCanWriteToIt) {
  const fs::path directory = folder_ / "data";
  const auto risk_with = [&](mode_t mode) {
    EXPECT_EQ(::chmod(directory.c_str(), mode), 0);
    return directory_risk(directory);
  };
  EXPECT_EQ(directory_risk(directory).reason, "") << "it does not exist";
  ASSERT_TRUE(fs::create_directory(directory));
  EXPECT_EQ(risk_with(0755).reason, "");
  EXPECT_TRUE(risk_with(01777).is_high);
  EXPECT_THAT(risk_with(0777).reason, HasSubstr("other users can write to it"));
  EXPECT_TRUE(fs::is_empty(directory));
}

TEST_F(Trust, TheRiskOfADirectoryOfAnotherUserDependsOnItsParent) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  const fs::path directory = folder_ / "data";
  ASSERT_TRUE(fs::create_directory(directory));
  ASSERT_EQ(::chmod(directory.c_str(), 02770), 0);
  ASSERT_EQ(::chown(directory.c_str(), 0, 4321), 0);
  EXPECT_THAT(directory_risk(directory).reason, HasSubstr("users of the group 4321"));
  EXPECT_FALSE(directory_risk(directory).is_high);
  ASSERT_EQ(::chown(directory.c_str(), 4321, 4321), 0);
  EXPECT_EQ(directory_risk(directory).reason, "the user 4321 owns it");
  EXPECT_FALSE(directory_risk(directory).is_high);
  ASSERT_EQ(::chmod(folder_.c_str(), 01777), 0);
  EXPECT_TRUE(directory_risk(directory).is_high);
}

TEST_F(Trust, DirectoriesAreCreatedWithThePermissions) {
  const mode_t before = ::umask(0);
  EXPECT_FALSE(create_directories(folder_ / "a" / "b", private_directory));
  EXPECT_FALSE(create_directories(folder_ / "a" / "b", private_directory)) << "they exist";
  EXPECT_FALSE(create_directories(folder_ / "c", readable_directory));
  ::umask(before);
  const auto mode = [](const fs::path& path) {
    return static_cast<mode_t>(fs::status(path).permissions());
  };
  EXPECT_EQ(mode(folder_ / "a"), mode_t{0700});
  EXPECT_EQ(mode(folder_ / "a" / "b"), mode_t{0700});
  EXPECT_EQ(mode(folder_ / "c"), mode_t{0755});
  EXPECT_TRUE(create_directories(file(0600) / "below", private_directory)) << "a file is above";
}

}  // namespace
}  // namespace lockstep::core
