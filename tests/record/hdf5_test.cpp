// SPDX-License-Identifier: BSD-3-Clause
// Tests that two threads can use the HDF5 library, which is not thread-safe: a checkpoint is
// written in the background while the main thread writes the run file.

#include "files.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>

#include "lockstep/core/error.hpp"
#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "lockstep/record/run_file.hpp"
#include "samples.hpp"
#include "temporary_directory.hpp"
#include "weights.hpp"

namespace lockstep::record {
namespace {

using namespace std::chrono_literals;

TEST(Hdf5, ACallWithoutALockIsRefused) {
  {
    const hdf5::LibraryLock lock;
    EXPECT_NO_THROW(hdf5::properties(H5P_DATASET_CREATE));
  }
  EXPECT_THROW(hdf5::properties(H5P_DATASET_CREATE), core::Error);
}

TEST(Hdf5, AnotherThreadWaitsUntilTheFileIsClosed) {
  const TemporaryDirectory directory;
  std::optional<hdf5::File> first = hdf5::create_file(directory / "first.h5");
  auto second = std::async(std::launch::async,
                           [&] { hdf5::close(hdf5::create_file(directory / "second.h5")); });
  EXPECT_EQ(second.wait_for(100ms), std::future_status::timeout);
  first.reset();
  ASSERT_EQ(second.wait_for(30s), std::future_status::ready);
  EXPECT_NO_THROW(second.get());
}

TEST(Hdf5, AFileThatCannotBeOpenedLeavesNoLock) {
  const TemporaryDirectory directory;
  EXPECT_THROW(hdf5::open_file(directory / "missing.h5", hdf5::Access::read), hdf5::Failure);
  auto other = std::async(std::launch::async,
                          [&] { hdf5::close(hdf5::create_file(directory / "other.h5")); });
  ASSERT_EQ(other.wait_for(30s), std::future_status::ready);
  EXPECT_NO_THROW(other.get());
}

TEST(Hdf5, CheckpointsAndARunFileAreWrittenAtTheSameTime) {
  constexpr std::int64_t rounds = 60;
  const TemporaryDirectory directory;
  Weights weights(1);
  auto checkpoints = std::async(std::launch::async, [&] {
    CheckpointStore store(directory.path(), 2, "run 1");
    for (std::int64_t step = 1; step <= rounds; ++step) {
      store.save(step, weights.tensors(), some_counters);
    }
  });
  const RunHeader header = samples::header(2, 1);
  RunFile run(directory / "run.h5", OverwriteMode::refuse, header);
  for (std::int64_t epoch = 1; epoch <= rounds; ++epoch) {
    run.append(samples::epoch(epoch, 4, header));
  }
  run.finish(RunStatus::complete);  // reads the file back
  EXPECT_NO_THROW(checkpoints.get());
  EXPECT_EQ(newest_checkpoint(directory.path()), checkpoint_path(directory.path(), rounds));
  Weights target(100);
  read_checkpoint(checkpoint_path(directory.path(), rounds - 1), target.tensors(),
                  Verify::required);
  EXPECT_EQ(target.values(), weights.values());
}

}  // namespace
}  // namespace lockstep::record
