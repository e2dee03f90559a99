// SPDX-License-Identifier: BSD-3-Clause
// Tests file systems that have no locks, cannot sync, fail to write or store no permissions. This
// program replaces flock, fsync, mkdir, fchmod and the function with which HDF5 writes.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>

#include "expect_error.hpp"
#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/trust.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/output_file.hpp"
#include "lockstep/record/run_file.hpp"
#include "samples.hpp"
#include "temporary_directory.hpp"

namespace {
int flock_error = 0, file_sync_error = 0, directory_sync_error = 0;
bool stores_permissions = true;
int writes_until_failure = 0;  // 0: no write fails; -1: one has failed

int fail_with(int error) {
  errno = error;
  return -1;
}
}  // namespace

extern "C" int flock(int descriptor, int operation) {
  if (flock_error != 0) return fail_with(flock_error);
  return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
}

extern "C" int fsync(int descriptor) {
  struct stat status {};
  ::fstat(descriptor, &status);
  const int error = S_ISDIR(status.st_mode) ? directory_sync_error : file_sync_error;
  return error != 0 ? fail_with(error) : static_cast<int>(::syscall(SYS_fsync, descriptor));
}

extern "C" int mkdir(const char* path, mode_t mode) {
  const auto result = static_cast<int>(::syscall(SYS_mkdir, path, mode));
  return result != 0 || stores_permissions ? result : ::chmod(path, 0777);
}

extern "C" int fchmod(int descriptor, mode_t mode) {
  return stores_permissions ? static_cast<int>(::syscall(SYS_fchmod, descriptor, mode))
                            : fail_with(EPERM);
}

extern "C" ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) {
  if (writes_until_failure == 1) {
    writes_until_failure = -1;
    return fail_with(ENOSPC);
  }
  if (writes_until_failure > 1) --writes_until_failure;
  return ::syscall(SYS_pwrite64, descriptor, data, bytes, offset);
}

namespace lockstep::record {
namespace {

namespace fs = std::filesystem;

class FileSystemTest : public testing::Test {
 protected:
  ~FileSystemTest() override {
    flock_error = file_sync_error = directory_sync_error = writes_until_failure = 0;
    stores_permissions = true;
  }

  void expect_a_finished_run() {
    RunFile run(path_, OverwriteMode::replace, header_);
    run.append(samples::epoch(1, 4, header_));
    run.finish(RunStatus::complete);
    EXPECT_NO_THROW(hdf5::open_file(path_, hdf5::Access::read));
    std::vector<float> values{1, 2};
    const std::vector<Tensor> tensors{{"state", "bias", {2}, values}};
    CheckpointStore(directory_.path(), 1, "run 1").save(1, tensors, {{"step", 1}});
    EXPECT_TRUE(newest_checkpoint(directory_.path()).has_value());
  }

  TemporaryDirectory directory_;
  const fs::path path_ = directory_ / "run.h5";
  const RunHeader header_ = samples::header(1, 0);
};

TEST_F(FileSystemTest, ADirectoryOfCheckpointsIsUsedByOneRun) {
  const fs::path file = directory_ / ".lockstep-run";
  {
    const CheckpointClaim claim(directory_.path());
    expect_error(core::ExitStatus::output, {fmt::format("(process {} on ", ::getpid())},
                 [&] { CheckpointClaim(directory_.path()); });
    EXPECT_TRUE(fs::exists(file));
  }
  EXPECT_FALSE(fs::exists(file));
  std::ofstream(file) << "left by a killed process";
  EXPECT_NO_THROW(CheckpointClaim(directory_.path()));
  fs::create_symlink("/dev/null", file);
  EXPECT_THROW(CheckpointClaim(directory_.path()), core::Error);
}

TEST_F(FileSystemTest, ADirectoryOfCheckpointsIsUsedWithoutLocks) {
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL}) {
    flock_error = error;
    testing::internal::CaptureStderr();
    const CheckpointClaim first(directory_.path());
    EXPECT_NO_THROW(CheckpointClaim(directory_.path()));
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::HasSubstr(fmt::format("in particular process {}", ::getpid())));
  }
}

TEST_F(FileSystemTest, PermissionsThatAreNotStoredAreALowRisk) {
  stores_permissions = false;
  const fs::path directory = directory_ / "data";
  ASSERT_FALSE(core::create_directories(directory, core::readable_directory));
  EXPECT_NE(core::directory_risk(directory).reason, "");
  EXPECT_FALSE(core::directory_risk(directory).is_high);
  EXPECT_TRUE(fs::is_empty(directory));
  stores_permissions = true;
  EXPECT_TRUE(core::directory_risk(directory).is_high);
}

TEST_F(FileSystemTest, DirectoriesThatCannotBeSyncedDoNotFailARun) {
  for (const int error : {EINVAL, ENOTSUP, EBADF, ENOSYS}) {
    directory_sync_error = error;
    expect_a_finished_run();
  }
}

TEST_F(FileSystemTest, PermissionsThatCannotBeSetDoNotFailARun) {
  stores_permissions = false;
  expect_a_finished_run();
}

TEST_F(FileSystemTest, FilesThatCannotBeSyncedDoNotFailARun) {
  for (const int error : {EINVAL, ENOTSUP}) {
    file_sync_error = error;
    expect_a_finished_run();
  }
}

TEST_F(FileSystemTest, ADiskErrorFailsARun) {
  RunFile run(path_, OverwriteMode::refuse, header_);
  file_sync_error = EIO;
  expect_error(core::ExitStatus::output, {}, [&] { run.finish(RunStatus::complete); });
}

// HDF5 writes some data only when it closes a dataset.
TEST_F(FileSystemTest, EveryFailedWriteFailsARun) {
  int number = 0;
  do {
    writes_until_failure = ++number;
    try {
      RunFile run(path_, OverwriteMode::replace, header_);
      run.append(samples::epoch(1, 4, header_));
      run.finish(RunStatus::complete);
      EXPECT_NE(writes_until_failure, -1) << "the failure of write " << number << " was ignored";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.status(), core::ExitStatus::output);
    }
  } while (writes_until_failure == -1);
  EXPECT_GT(number, 50) << "HDF5 does not write with the function that this program replaces";
}

TEST_F(FileSystemTest, WithoutLocksARunIsWritten) {
  for (const int error : {ENOTSUP, ENOLCK, ENOSYS}) {
    flock_error = error;
    expect_a_finished_run();
  }
}

// Without locks, a program cannot determine whether another process still writes the file.
TEST_F(FileSystemTest, WithoutLocksAnotherRunIsNotReplaced) {
  flock_error = ENOTSUP;
  RunFile run(path_, OverwriteMode::refuse, header_);
  run.append(samples::epoch(1, 4, header_));
  expect_error(core::ExitStatus::output, {"no locks"},
               [&] { RunFile(path_, OverwriteMode::refuse, header_); });
  run.finish(RunStatus::complete);
  EXPECT_TRUE(fs::exists(path_));
}

// The next part has a different file name, so no existing file is overwritten.
TEST_F(FileSystemTest, WithoutLocksAKilledRunIsResumed) {
  flock_error = ENOTSUP;
  const RunFile killed(path_, OverwriteMode::refuse, header_);
  EXPECT_NO_THROW(check_writable_beside(path_));
  const RunPart part = next_part(path_, killed.run_id(), 2);
  EXPECT_EQ(part.path, directory_ / "run.part2.h5");
  EXPECT_EQ(part.part, 2);
  EXPECT_EQ(next_part(path_, "another run", 1).path, path_);
}

TEST_F(FileSystemTest, WithoutLocksOnlyOldTemporaryFilesAreDeleted) {
  flock_error = ENOTSUP;
  const fs::path young = directory_ / "young", old = directory_ / "old";
  for (const fs::path& path : {young, old}) std::ofstream(path) << "half a checkpoint";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  remove_if_stale(young);
  remove_if_stale(old);
  EXPECT_TRUE(fs::exists(young));
  EXPECT_FALSE(fs::exists(old));
}

}  // namespace
}  // namespace lockstep::record
