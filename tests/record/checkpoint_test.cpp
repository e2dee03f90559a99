// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/checkpoint_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "expect_error.hpp"
#include "files.hpp"
#include "killed_writer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "samples.hpp"
#include "temporary_directory.hpp"
#include "test_files.hpp"
#include "weights.hpp"

namespace lockstep::record {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;

std::int64_t step_of(const Counters& counters) {
  for (const auto& [name, value] : counters) {
    if (name == "step") return value;
  }
  return -1;
}

class CheckpointTest : public testing::Test {
 protected:
  /// Fails the test unless reading `path` throws an input error whose message contains `text` and
  /// the path, and leaves all tensors unchanged.
  void expect_refused(const fs::path& path, Verify verify, const std::string& text) {
    Weights target(100);
    const auto before = target.values();
    expect_error(core::ExitStatus::input, {text, path.string()},
                 [&] { read_checkpoint(path, target.tensors(), verify); });
    EXPECT_EQ(target.values(), before);
  }

  /// Writes a file as another program might write it: the tensors under /state and /momentum,
  /// compressed and big-endian, without a digest.
  void write_foreign(const fs::path& path, const std::function<void(hid_t)>& change = {}) {
    hdf5::File file = hdf5::create_file(path);
    for (const char* name : {"state", "momentum"}) {
      hdf5::own<hdf5::Group>(H5Gcreate2(file.get(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                             "creating");
    }
    for (const Tensor& tensor : weights_.tensors()) {
      const std::vector<hsize_t> shape(tensor.shape.begin(), tensor.shape.end());
      const int rank = static_cast<int>(shape.size());
      const auto space =
          hdf5::own<hdf5::Space>(H5Screate_simple(rank, shape.data(), nullptr), "describing");
      const hdf5::Properties creation = hdf5::properties(H5P_DATASET_CREATE);
      hdf5::check(H5Pset_chunk(creation.get(), rank, shape.data()), "chunking");
      hdf5::check(H5Pset_shuffle(creation.get()), "shuffling");
      hdf5::check(H5Pset_deflate(creation.get(), 4), "compressing");
      const std::string name = "/" + tensor.group + "/" + tensor.name;
      const auto dataset =
          hdf5::own<hdf5::Dataset>(H5Dcreate2(file.get(), name.c_str(), H5T_IEEE_F32BE, space.get(),
                                              H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                                   "creating");
      hdf5::check(H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                           tensor.values.data()),
                  "writing");
    }
    if (change) change(file.get());
    hdf5::close(std::move(file));
  }

  TemporaryDirectory directory_;
  const fs::path path_ = directory_ / "weights.h5";
  Weights weights_{1};
};

TEST_F(CheckpointTest, ReadsWrittenTensors) {
  write_checkpoint(path_, weights_.tensors(), some_counters);
  Weights target(100);
  const Counters counters = read_checkpoint(path_, target.tensors(), Verify::required);
  EXPECT_EQ(target.values(), weights_.values());
  EXPECT_THAT(counters, UnorderedElementsAreArray(some_counters));
  EXPECT_THAT(names_in(directory_.path()), ElementsAre("weights.h5"));
}

TEST_F(CheckpointTest, ReturnsTextsThatTheDigestCovers) {
  write_checkpoint(path_, weights_.tensors(), some_counters, {{"run_id", "run 1"}});
  const CheckpointHeader header = skim_checkpoint(path_);
  EXPECT_THAT(header.counters, UnorderedElementsAreArray(some_counters));
  EXPECT_EQ(header.texts, (Texts{{"run_id", "run 1"}}));
  {
    hdf5::File file = hdf5::open_file(path_, hdf5::Access::modify);
    hdf5::check(H5Adelete(file.get(), "run_id"), "deleting");
    hdf5::set_attribute(file.get(), "run_id", std::string("run 2"));
    hdf5::close(std::move(file));
  }
  expect_refused(path_, Verify::required, "digest does not match");
}

TEST_F(CheckpointTest, ReadsACheckpointWithoutTexts) {
  write_checkpoint(path_, weights_.tensors(), some_counters);
  EXPECT_TRUE(skim_checkpoint(path_).texts.empty());
}

TEST_F(CheckpointTest, RefusesAnotherVersion) {
  write_checkpoint(path_, weights_.tensors(), some_counters);
  hdf5::File file = hdf5::open_file(path_, hdf5::Access::modify);
  hdf5::set_attribute(file.get(), "format_version", std::int64_t{1});
  hdf5::close(std::move(file));
  const char* message = "a checkpoint of version 1, and this program reads version 2";
  for (const Verify verify : {Verify::required, Verify::if_present})
    expect_refused(path_, verify, message);
}

TEST_F(CheckpointTest, ReadsAPartOfAFile) {
  write_checkpoint(path_, weights_.tensors(), some_counters);
  Weights target(100);
  const Weights untouched(100);
  read_checkpoint(path_, std::span(target.tensors()).first(1), Verify::required);
  EXPECT_EQ(target.values()[0], weights_.values()[0]);
  EXPECT_EQ(target.values()[1], untouched.values()[1]);
}

TEST_F(CheckpointTest, IsIdenticalForEqualState) {
  write_checkpoint(path_, weights_.tensors(), some_counters);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // the time in seconds differs
  write_checkpoint(directory_ / "again.h5", weights_.tensors(), some_counters);
  EXPECT_EQ(content(path_), content(directory_ / "again.h5"));
}

TEST_F(CheckpointTest, ReadsFilesWithoutDigestIfAllowed) {
  write_foreign(path_);
  Weights target(100);
  read_checkpoint(path_, target.tensors(), Verify::if_present);
  EXPECT_EQ(target.values(), weights_.values());
  expect_refused(path_, Verify::required, "carries no digest");
}

TEST_F(CheckpointTest, RejectsOtherFiles) {
  put(directory_ / "text.h5", "not an HDF5 file");
  put(directory_ / "empty.h5", "");
  expect_refused(directory_ / "missing.h5", Verify::required, "no such file");
  expect_refused(directory_.path(), Verify::required, "it is a folder");
  expect_refused(directory_ / "text.h5", Verify::if_present, "not");
  expect_refused(directory_ / "empty.h5", Verify::if_present, "not");
}

TEST_F(CheckpointTest, RejectsOtherNamesAndShapes) {
  Weights other(1);
  other.tensors()[2].shape = {2, 5};
  write_checkpoint(path_, other.tensors(), some_counters);
  expect_refused(path_, Verify::required,
                 "/state/linear.bias has the shape 2x5 where 10 is needed");
  write_checkpoint(path_, std::span(weights_.tensors()).first(4), some_counters);
  expect_refused(path_, Verify::required, "lacks the tensor /momentum/linear.bias (10)");
}

TEST_F(CheckpointTest, RejectsOtherTypesAndLinks) {
  const auto replace = [](hid_t file, hid_t type) {
    hdf5::check(H5Ldelete(file, "/state/linear.bias", H5P_DEFAULT), "deleting");
    const hsize_t size = 10;
    const auto space = hdf5::own<hdf5::Space>(H5Screate_simple(1, &size, nullptr), "describing");
    hdf5::own<hdf5::Dataset>(H5Dcreate2(file, "/state/linear.bias", type, space.get(), H5P_DEFAULT,
                                        H5P_DEFAULT, H5P_DEFAULT),
                             "creating");
  };
  write_foreign(path_, [&](hid_t file) { replace(file, H5T_STD_I32LE); });
  expect_refused(path_, Verify::if_present, "has no floating-point type");
  write_foreign(path_, [](hid_t file) {
    hdf5::check(H5Ldelete(file, "/state/linear.bias", H5P_DEFAULT), "deleting");
    hdf5::check(H5Lcreate_external("/etc/other.h5", "/x", file, "/state/linear.bias", H5P_DEFAULT,
                                   H5P_DEFAULT),
                "linking");
  });
  expect_refused(path_, Verify::if_present, "is not a dataset");
}

TEST_F(CheckpointTest, RefusesExternalFilesWithoutReadingTheirNames) {
  write_foreign(path_, [](hid_t file) {
    hdf5::check(H5Ldelete(file, "/state/linear.bias", H5P_DEFAULT), "deleting");
    const hsize_t size = 10;
    const auto space = hdf5::own<hdf5::Space>(H5Screate_simple(1, &size, nullptr), "describing");
    const hdf5::Properties creation = hdf5::creation_properties(H5P_DATASET_CREATE);
    hdf5::check(H5Pset_external(creation.get(), "name-of-the-file", 0, 40), "describing");
    hdf5::own<hdf5::Dataset>(H5Dcreate2(file, "/state/linear.bias", H5T_IEEE_F32LE, space.get(),
                                        H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                             "creating");
  });
  expect_refused(path_, Verify::if_present, "linear.bias is stored in other files");
  // The names are in a heap, which has no checksum. HDF5 would read past its end if the last name
  // has no terminating zero.
  std::string bytes = content(path_);
  const std::size_t heap = bytes.find("HEAP"), name = bytes.find("name-of-the-file");
  ASSERT_NE(heap, std::string::npos);
  ASSERT_GT(name, heap);
  std::uint64_t heap_bytes = 0, heap_address = 0;
  std::memcpy(&heap_bytes, bytes.data() + heap + 8, sizeof heap_bytes);
  std::memcpy(&heap_address, bytes.data() + heap + 24, sizeof heap_address);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(name),
            bytes.begin() + static_cast<std::ptrdiff_t>(heap_address + heap_bytes), 'x');
  put(path_, bytes);
  expect_refused(path_, Verify::if_present, "linear.bias is stored in other files");
}

TEST_F(CheckpointTest, VerifiesTheDigestIfThereIsOne) {
  write_checkpoint(path_, weights_.tensors(), some_counters);
  {
    hdf5::File file = hdf5::open_file(path_, hdf5::Access::modify);
    hdf5::set_attribute(file.get(), "step", std::int64_t{18});
    hdf5::close(std::move(file));
  }
  expect_refused(path_, Verify::required, "digest does not match");
  expect_refused(path_, Verify::if_present, "digest does not match");
}

TEST_F(CheckpointTest, KeepsTheOldFileIfWritingFails) {
  write_checkpoint(path_, weights_.tensors(), some_counters);
  const std::string before = content(path_);
  const auto child = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limits{2048, 2048};
    ::setrlimit(RLIMIT_FSIZE, &limits);
    try {
      write_checkpoint(path_, weights_.tensors(), some_counters);
    } catch (const core::Error& error) {
      const bool told = std::string(error.what()).find("File too large") != std::string::npos;
      std::exit(error.status() == core::ExitStatus::output && told ? 0 : 1);
    }
    std::exit(2);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
  EXPECT_EQ(content(path_), before);
  EXPECT_THAT(names_in(directory_.path()), ElementsAre("weights.h5"));
}

TEST_F(CheckpointTest, RequiresItsDirectory) {
  expect_error(core::ExitStatus::output, {"mkdir -p"}, [&] {
    write_checkpoint(directory_ / "missing/weights.h5", weights_.tensors(), some_counters);
  });
}

TEST_F(CheckpointTest, FindsTheNewestValidCheckpoint) {
  EXPECT_EQ(newest_checkpoint(directory_.path()), std::nullopt);
  EXPECT_EQ(newest_checkpoint(directory_ / "missing"), std::nullopt);
  for (const std::int64_t step : {9, 10, 100}) {
    write_checkpoint(checkpoint_path(directory_.path(), step), weights_.tensors(), some_counters);
  }
  put(directory_ / "checkpoint-x.h5", "");
  put(directory_ / "checkpoint-1000.h5.old", "");
  EXPECT_EQ(newest_checkpoint(directory_.path()), checkpoint_path(directory_.path(), 100));
  fs::resize_file(checkpoint_path(directory_.path(), 100), 1000);
  EXPECT_EQ(newest_checkpoint(directory_.path()), checkpoint_path(directory_.path(), 10));
}

TEST_F(CheckpointTest, PrunesOldCheckpointsAndTemporaryFiles) {
  put(directory_ / ".checkpoint-12.h5.4711.tmp", "left by a killed writer");
  const Descriptor living = create_in_use(directory_ / ".checkpoint-13.h5.4712.tmp");
  put(directory_ / "notes.txt", "mine");
  CheckpointStore store(directory_.path(), 2, "run 1");
  for (const std::int64_t step : {9, 10, 11, 100}) {
    store.save(step, weights_.tensors(), some_counters);
  }
  EXPECT_THAT(names_in(directory_.path()),
              UnorderedElementsAre("checkpoint-11.h5", "checkpoint-100.h5", "notes.txt",
                                   ".checkpoint-13.h5.4712.tmp"));
}

TEST_F(CheckpointTest, StoresOptionsThatAreNotTooLong) {
  for (const std::size_t bytes : {most_text_bytes, most_text_bytes + 1}) {
    const std::string options(bytes, 'x');
    CheckpointStore(directory_.path(), 1, "run 1", options)
        .save(1, weights_.tensors(), some_counters);
    Texts expected{{"run_id", "run 1"}};
    if (bytes <= most_text_bytes) expected.emplace_back("options", options);
    const auto header = skim_checkpoint(checkpoint_path(directory_.path(), 1));
    EXPECT_THAT(header.texts, testing::UnorderedElementsAreArray(expected));
  }
}

TEST_F(CheckpointTest, DamagedCheckpointsDoNotReplaceValidOnes) {
  const fs::path damaged = checkpoint_path(directory_.path(), 100);
  write_checkpoint(damaged, weights_.tensors(), some_counters, {{"run_id", "run 1"}});
  fs::resize_file(damaged, 1000);
  CheckpointStore store(directory_.path(), 1, "run 1");
  store.save(3, weights_.tensors(), some_counters);
  EXPECT_EQ(newest_checkpoint(directory_.path()), checkpoint_path(directory_.path(), 3));
  store.save(6, weights_.tensors(), some_counters);
  EXPECT_THAT(names_in(directory_.path()),
              UnorderedElementsAre("checkpoint-6.h5", "checkpoint-100.h5"));
}

// The header of this file is readable; only the digest reveals the damage.
TEST_F(CheckpointTest, DamageToValuesAloneIsFoundBeforePruning) {
  const fs::path damaged = checkpoint_path(directory_.path(), 2);
  CheckpointStore(directory_.path(), 2, "run 1").save(1, weights_.tensors(), some_counters);
  CheckpointStore(directory_.path(), 2, "run 1").save(2, weights_.tensors(), some_counters);
  {
    hdf5::File file = hdf5::open_file(damaged, hdf5::Access::modify);
    hdf5::set_attribute(file.get(), "batches_tracked", std::int64_t{1});
    hdf5::close(std::move(file));
  }
  CheckpointStore(directory_.path(), 2, "run 1").save(3, weights_.tensors(), some_counters);
  EXPECT_THAT(names_in(directory_.path()),
              UnorderedElementsAre("checkpoint-1.h5", "checkpoint-2.h5", "checkpoint-3.h5"));
}

// The run is resumed from a checkpoint that is older than the newest one in the directory.
TEST_F(CheckpointTest, KeepsTheMostRecentlyWrittenCheckpoints) {
  CheckpointStore first(directory_.path(), 2, "run 1");
  for (const std::int64_t step : {100, 200}) first.save(step, weights_.tensors(), some_counters);
  CheckpointStore resumed(directory_.path(), 2, "run 1");
  for (const std::int64_t step : {110, 120, 130}) {
    resumed.save(step, weights_.tensors(), some_counters);
    EXPECT_EQ(newest_checkpoint(directory_.path()), checkpoint_path(directory_.path(), step));
  }
  EXPECT_THAT(names_in(directory_.path()),
              UnorderedElementsAre("checkpoint-120.h5", "checkpoint-130.h5"));
}

TEST_F(CheckpointTest, KeepsCheckpointsOfOtherRuns) {
  write_checkpoint(checkpoint_path(directory_.path(), 1), weights_.tensors(), some_counters);
  CheckpointStore(directory_.path(), 1, "run 1").save(5, weights_.tensors(), some_counters);
  const std::string other = content(checkpoint_path(directory_.path(), 5));
  CheckpointStore store(directory_.path(), 1, "run 2");
  for (const std::int64_t step : {2, 4, 5}) store.save(step, weights_.tensors(), some_counters);
  EXPECT_THAT(names_in(directory_.path()),
              UnorderedElementsAre("checkpoint-1.h5", "checkpoint-5.h5", "checkpoint-5.h5.1"));
  EXPECT_EQ(content(directory_ / "checkpoint-5.h5.1"), other);
  EXPECT_EQ(newest_checkpoint(directory_.path()), checkpoint_path(directory_.path(), 5));
}

TEST_F(CheckpointTest, KeepsACheckpointIfTheWriterIsKilled) {
  core::Random random(13, core::RandomStream::test);
  std::int64_t acknowledged = 0;
  for (int kill = 0; kill < 20; ++kill) {
    const std::int64_t start = acknowledged + 1;
    acknowledged = kill_writer(random, [&](const Acknowledgement& acknowledge) {
      CheckpointStore store(directory_.path(), 3, "run 1");
      for (std::int64_t step = start;; ++step) {
        store.save(step, weights_.tensors(), {{"step", step}});
        acknowledge(step);
      }
    });
    const auto newest = newest_checkpoint(directory_.path());
    ASSERT_TRUE(newest.has_value());
    Weights target(100);
    const Counters counters = read_checkpoint(*newest, target.tensors(), Verify::required);
    EXPECT_EQ(target.values(), weights_.values());
    const std::int64_t step = step_of(counters);
    EXPECT_GE(step, acknowledged);
    // The step in the name of the newest valid file is the step of its contents.
    EXPECT_EQ(*newest, checkpoint_path(directory_.path(), step));
  }
  CheckpointStore(directory_.path(), 1, "run 1").save(0, weights_.tensors(), {{"step", 0}});
  EXPECT_THAT(names_in(directory_.path()), ElementsAre("checkpoint-0.h5"));
}

}  // namespace
}  // namespace lockstep::record
