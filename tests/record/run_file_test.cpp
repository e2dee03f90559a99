// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/run_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "expect_error.hpp"
#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/record/output_file.hpp"
#include "reading.hpp"
#include "samples.hpp"
#include "temporary_directory.hpp"
#include "test_files.hpp"

namespace lockstep::record {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// Returns the exit status and the message of the error that `work` throws.
std::pair<core::ExitStatus, std::string> failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const core::Error& error) {
    return {error.status(), error.what()};
  }
  return {core::ExitStatus::done, ""};
}

void expect_output_error(const std::function<void()>& work, const std::string& text) {
  expect_error(core::ExitStatus::output, {text}, work);
}

class RunFileTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  const fs::path path_ = directory_ / "run.h5";
  const fs::path partial_ = directory_ / "run.h5.partial";
  const RunHeader header_ = samples::header(3, 2);

  /// Returns the chunk shape of the phases (step, rank, phase) of a run with an epoch of `steps`.
  std::vector<hsize_t> chunk_of_phases(const RunHeader& header, std::int64_t steps) {
    RunFile run(path_, OverwriteMode::refuse, header);
    run.append(samples::epoch(1, steps, header));
    const hdf5::File file = hdf5::open_file(partial_, hdf5::Access::read);
    const auto dataset = hdf5::own<hdf5::Dataset>(
        H5Dopen2(file.get(), "/steps/phase_seconds", H5P_DEFAULT), "opening");
    const auto creation = hdf5::own<hdf5::Properties>(H5Dget_create_plist(dataset.get()), "asking");
    EXPECT_EQ(H5Pget_nfilters(creation.get()), 1);  // checksums
    std::vector<hsize_t> chunk(3);
    EXPECT_EQ(H5Pget_chunk(creation.get(), 3, chunk.data()), 3);
    return chunk;
  }
};

TEST_F(RunFileTest, StoresAppendedEpochs) {
  RunFile run(path_, OverwriteMode::refuse, header_);
  run.append(samples::epoch(1, 5, header_));
  run.append(samples::epoch(2, 5, header_));
  run.append(samples::epoch(3, 2, header_));
  run.write_result("best_test_accuracy", 0.75);
  run.finish(RunStatus::complete);

  EXPECT_THAT(names_in(directory_.path()), ElementsAre("run.h5"));
  const hdf5::File file = hdf5::open_file(path_, hdf5::Access::read);
  EXPECT_EQ(hdf5::text_attribute(file.get(), "status"), "complete");
  EXPECT_EQ(hdf5::text_attribute(file.get(), "failure"), "");
  EXPECT_EQ(hdf5::text_attribute(file.get(), "run_id"), run.run_id());
  EXPECT_EQ(hdf5::text_attribute(file.get(), "command_line"), header_.command_line);
  EXPECT_THAT(read_doubles(file, "/step"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(read_doubles(file, "/epoch"), ElementsAre(1, 2, 3));
  EXPECT_THAT(read_doubles(file, "/steps/epoch"), ElementsAre(1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3));
  for (const auto& [name, width] : {std::pair{"/steps/loss", 1},
                                    {"/steps/phase_seconds", 3 * 6},
                                    {"/buckets/start_seconds", 3 * 2}}) {
    std::vector<double> expected;
    for (const auto& [epoch, steps] : {std::pair{1, 5}, {2, 5}, {3, 2}}) {
      const auto rows = samples::values(epoch, static_cast<std::size_t>(steps * width));
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(read_doubles(file, name), expected) << name;
  }
  EXPECT_THAT(read_doubles(file, "/epochs/seconds"), ElementsAre(1000, 1000, 1000));
}

// A SWMR reader must not wait without end for metadata whose checksum is wrong.
TEST_F(RunFileTest, ReadsTheIdOfADamagedFileInFiniteTime) {
  RunFile(path_, OverwriteMode::refuse, header_).finish(RunStatus::complete);
  std::string bytes = content(path_);
  const std::size_t at = bytes.find("run_id");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'R';
  put(path_, bytes);
  EXPECT_EQ(run_id_of(path_), "");
}

// An attribute of more than 64 KiB does not fit an object header.
TEST_F(RunFileTest, KeepsLongTexts) {
  RunHeader header = header_;
  header.command_line.assign(100'000, 'x');
  RunFile run(path_, OverwriteMode::refuse, header);
  run.finish(RunStatus::complete);
  const hdf5::File file = hdf5::open_file(path_, hdf5::Access::read);
  EXPECT_EQ(hdf5::text_attribute(file.get(), "command_line", 100'000), header.command_line);
}

TEST_F(RunFileTest, KeepsTheFailureOfAFailedRun) {
  RunFile run(path_, OverwriteMode::refuse, header_);
  run.finish(RunStatus::failed, "rank 1: the loss is not finite");
  const hdf5::File file = hdf5::open_file(path_, hdf5::Access::read);
  EXPECT_EQ(hdf5::text_attribute(file.get(), "status"), "failed");
  EXPECT_EQ(hdf5::text_attribute(file.get(), "failure"), "rank 1: the loss is not finite");
  EXPECT_THAT(read_doubles(file, "/step"), IsEmpty());
}

TEST_F(RunFileTest, IsReadableBetweenEpochs) {
  RunFile run(path_, OverwriteMode::refuse, header_);
  for (std::int64_t epoch = 1; epoch <= 3; ++epoch) {
    run.append(samples::epoch(epoch, 4, header_));
    for (const auto access : {hdf5::Access::read, hdf5::Access::read_while_written}) {
      const hdf5::File file = hdf5::open_file(partial_, access);
      EXPECT_EQ(hdf5::text_attribute(file.get(), "status"), "running");
      EXPECT_EQ(read_doubles(file, "/epoch").size(), static_cast<std::size_t>(epoch));
      EXPECT_EQ(read_doubles(file, "/steps/loss").size(), static_cast<std::size_t>(4 * epoch));
    }
  }
}

// h5py and other programs lock a file for as long as they have it open for reading.
TEST_F(RunFileTest, AppendsWhileReadersLockTheFile) {
  RunFile run(path_, OverwriteMode::refuse, header_);
  run.append(samples::epoch(1, 4, header_));
  const Descriptor reader(::open(partial_.c_str(), O_RDONLY));
  ASSERT_EQ(::flock(reader.get(), LOCK_SH | LOCK_NB), 0);
  run.append(samples::epoch(2, 4, header_));
  run.finish(RunStatus::complete);
  EXPECT_EQ(read_doubles(hdf5::open_file(path_, hdf5::Access::read), "/step").size(), 8u);
}

// Every epoch has its own chunks: later epochs do not write to the chunks of earlier ones, so a
// killed process cannot damage them.
TEST_F(RunFileTest, StoresAnEpochPerChunk) {
  EXPECT_THAT(chunk_of_phases(header_, 7), ElementsAre(7, 3, 6));
}

// A chunk of 16 MiB has 340 steps of 1,024 ranks with six phases.
TEST_F(RunFileTest, DividesLongEpochsIntoEqualChunks) {
  const RunHeader header = samples::header(1024, 2);
  EXPECT_THAT(chunk_of_phases(header, 340), ElementsAre(340, 1024, 6));
  EXPECT_THAT(chunk_of_phases(header, 342), ElementsAre(171, 1024, 6));
  EXPECT_THAT(chunk_of_phases(header, 345), ElementsAre(115, 1024, 6));
}

// The only equal parts of a prime number of steps are single steps; a chunk for each would make the
// file slow to read.
TEST_F(RunFileTest, StoresAPrimeNumberOfStepsInOneChunk) {
  EXPECT_THAT(chunk_of_phases(samples::header(1024, 2), 347), ElementsAre(347, 1024, 6));
}

/// Returns `count` samples of ranks 0, 1 and 2 in turn; sample n has the values 100n, 100n + 1, ...
/// and of two interfaces the traffic n, n + 0.25, n + 0.5 and n + 0.75.
TelemetrySamples samples_of(std::int64_t first, std::int64_t count) {
  TelemetrySamples samples;
  for (std::int64_t n = first; n < first + count; ++n) {
    samples.rank.push_back(n % 3);
    for (std::size_t i = 0; i < telemetry_paths.size(); ++i) {
      samples.values.push_back(100.0 * double(n) + double(i));
    }
    for (int i = 0; i < 4; ++i) samples.traffic_bytes.push_back(double(n) + 0.25 * i);
  }
  return samples;
}

RunHeader header_with_telemetry() {
  RunHeader header = samples::header(3, 2);
  header.telemetry_interfaces = {"eth0", "lo", "eth0", "", "ib0", "lo"};
  return header;
}

void expect_samples(const hdf5::File& file, std::size_t count) {
  const auto last = double(count - 1);
  EXPECT_EQ(read_doubles(file, "/sample").size(), count);
  EXPECT_EQ(read_doubles(file, "/sample").back(), last);
  EXPECT_EQ(read_doubles(file, "/telemetry/rank").back(), double((count - 1) % 3));
  for (std::size_t i = 0; i < telemetry_paths.size(); ++i) {
    const auto values = read_doubles(file, telemetry_paths[i].data());
    ASSERT_EQ(values.size(), count) << telemetry_paths[i];
    EXPECT_EQ(values.back(), 100 * last + double(i)) << telemetry_paths[i];
  }
  const auto received = read_doubles(file, "/telemetry/received_bytes");
  const auto sent = read_doubles(file, "/telemetry/sent_bytes");
  ASSERT_EQ(received.size(), 2 * count);
  EXPECT_EQ(received[2 * count - 2], last);
  EXPECT_EQ(sent[2 * count - 2], last + 0.25);
  EXPECT_EQ(received[2 * count - 1], last + 0.5);
  EXPECT_EQ(sent[2 * count - 1], last + 0.75);
}

// During the run the file contains whole chunks only, so an append never writes to a chunk that
// already has samples.
TEST_F(RunFileTest, AppendsTelemetryInWholeChunks) {
  RunFile run(path_, OverwriteMode::refuse, header_with_telemetry());
  EpochRecord epoch = samples::epoch(1, 5, header_);
  epoch.telemetry = samples_of(0, 60);
  run.append(epoch);
  EXPECT_EQ(read_doubles(hdf5::open_file(partial_, hdf5::Access::read), "/sample").size(), 0u);
  epoch = samples::epoch(2, 5, header_);
  epoch.telemetry = samples_of(60, 80);
  run.append(epoch);
  expect_samples(hdf5::open_file(partial_, hdf5::Access::read), 2 * telemetry_chunk);
  run.append(samples::epoch(3, 5, header_));
  run.finish(RunStatus::complete);
  expect_samples(hdf5::open_file(path_, hdf5::Access::read), 140);
}

TEST_F(RunFileTest, HasNoTelemetryGroupWithoutTelemetry) {
  RunFile run(path_, OverwriteMode::refuse, header_);
  run.append(samples::epoch(1, 5, header_));
  run.finish(RunStatus::complete);
  const hdf5::File file = hdf5::open_file(path_, hdf5::Access::read);
  EXPECT_EQ(H5Lexists(file.get(), "/telemetry", H5P_DEFAULT), 0);
}

TEST_F(RunFileTest, RejectsTelemetryOfAnotherSize) {
  EpochRecord epoch = samples::epoch(1, 5, header_);
  epoch.telemetry = samples_of(0, 3);
  {
    RunFile run(path_, OverwriteMode::refuse, header_);
    expect_error(core::ExitStatus::internal, {}, [&] { run.append(epoch); });
  }
  RunFile run(path_, OverwriteMode::refuse, header_with_telemetry());
  epoch.telemetry.traffic_bytes.pop_back();
  expect_error(core::ExitStatus::internal, {}, [&] { run.append(epoch); });
}

TEST_F(RunFileTest, RejectsAnExistingFile) {
  put(path_, "precious");
  expect_output_error([&] { RunFile(path_, OverwriteMode::refuse, header_); }, "--overwrite");
  expect_output_error([&] { check_writable(path_, OverwriteMode::refuse); }, "--overwrite");
  EXPECT_EQ(content(path_), "precious");
  EXPECT_THAT(names_in(directory_.path()), ElementsAre("run.h5"));
}

TEST_F(RunFileTest, ReplacesOnlyAtTheEnd) {
  RunFile(path_, OverwriteMode::refuse, header_).finish(RunStatus::failed);
  const std::string before = content(path_);
  {
    RunFile unfinished(path_, OverwriteMode::replace, header_);
    unfinished.append(samples::epoch(1, 4, header_));
  }
  EXPECT_EQ(content(path_), before);
  RunFile run(path_, OverwriteMode::replace, header_);
  EXPECT_EQ(content(path_), before);
  run.finish(RunStatus::complete);
  EXPECT_NE(content(path_), before);
  EXPECT_THAT(names_in(directory_.path()), UnorderedElementsAre("run.h5", "run.h5.partial.1"));
}

TEST_F(RunFileTest, DoesNotReplaceAFileOfAnotherKind) {
  put(path_, "precious");
  expect_output_error([&] { RunFile(path_, OverwriteMode::replace, header_); }, "is no run file");
  expect_output_error([&] { check_writable(path_, OverwriteMode::replace); }, "is no run file");
  fs::remove(path_);
  RunFile run(path_, OverwriteMode::replace, header_);
  put(path_, "precious");
  expect_output_error([&] { run.finish(RunStatus::complete); }, "is no run file");
  EXPECT_EQ(content(path_), "precious");
  put(path_, "");
  run.finish(RunStatus::complete);
}

TEST_F(RunFileTest, DoesNotReplaceAFileCreatedDuringTheRun) {
  RunFile run(path_, OverwriteMode::refuse, header_);
  run.append(samples::epoch(1, 4, header_));
  put(path_, "somebody else's");
  expect_output_error([&] { run.finish(RunStatus::complete); }, "File exists");
  EXPECT_EQ(content(path_), "somebody else's");
  EXPECT_THAT(names_in(directory_.path()), UnorderedElementsAre("run.h5", "run.h5.partial"));
  fs::remove(path_);
  run.finish(RunStatus::complete);
  EXPECT_EQ(read_doubles(hdf5::open_file(path_, hdf5::Access::read), "/step").size(), 4u);
}

TEST_F(RunFileTest, RenamesPartialFilesOfEarlierRuns) {
  for (const char* text : {"first", "second"}) {
    put(partial_, text);
    const RunFile run(path_, OverwriteMode::refuse, header_);
    fs::remove(partial_);
  }
  EXPECT_EQ(content(directory_ / "run.h5.partial.1"), "first");
  EXPECT_EQ(content(directory_ / "run.h5.partial.2"), "second");
}

TEST_F(RunFileTest, DoesNotReplaceTheFileOfAnActiveRun) {
  RunFile run(path_, OverwriteMode::refuse, header_);
  run.append(samples::epoch(1, 4, header_));
  expect_output_error([&] { RunFile(path_, OverwriteMode::replace, header_); }, "another process");
  expect_output_error([&] { check_writable(path_, OverwriteMode::refuse); },
                      run.run_id() + " is being written or read by another process");
  run.append(samples::epoch(2, 4, header_));
  run.finish(RunStatus::complete);
  EXPECT_EQ(read_doubles(hdf5::open_file(path_, hdf5::Access::read), "/step").size(), 8u);
}

TEST_F(RunFileTest, ReportsWhyAPathCannotBeWritten) {
  put(directory_ / "file", "");
  const std::pair<fs::path, std::string> cases[] = {
      {directory_ / "missing/run.h5",
       "create it with mkdir -p " + (directory_ / "missing").string()},
      {directory_ / "file/run.h5", "file is not a directory); choose another place"},
      {directory_ / "file/folder/run.h5", "file/folder failed (Not a directory)"},
      {directory_.path(), "(it is a directory); give the name of a file"},
      {"/proc/run.h5", "/proc/"},
  };
  for (const auto& [path, text] : cases) {
    expect_output_error([&] { RunFile(path, OverwriteMode::refuse, header_); }, text);
    expect_output_error([&] { check_writable(path, OverwriteMode::refuse); }, text);
  }
}

// If the program runs as root, renaming a file over a device would replace the device for the whole
// machine.
TEST_F(RunFileTest, RejectsFilesThatAreNotRegular) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  fs::create_symlink("/dev/null", directory_ / "device.h5");
  for (const fs::path& path : {path_, directory_ / "device.h5", fs::path("/dev/null")}) {
    for (const OverwriteMode existing : {OverwriteMode::refuse, OverwriteMode::replace}) {
      expect_output_error([&] { RunFile(path, existing, header_); },
                          "(it is not a regular file); choose another name");
      expect_output_error([&] { check_writable(path, existing); },
                          "(it is not a regular file); choose another name");
    }
  }
  EXPECT_TRUE(fs::is_fifo(path_));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(RunFileTest, RejectsADanglingLink) {
  fs::create_symlink("missing", path_);
  expect_output_error([&] { RunFile(path_, OverwriteMode::refuse, header_); }, "--overwrite");
}

// Temporary names are longer than the name of the file. A name that is too long must be rejected at
// the start, not at the end of the run.
TEST_F(RunFileTest, RejectsLongNames) {
  for (const std::size_t length : {240, 300, 5000}) {
    const fs::path name(std::string(length, 'x'));
    for (const fs::path& path : {directory_.path() / name, directory_.path() / name / "run.h5"}) {
      expect_output_error([&] { RunFile(path, OverwriteMode::refuse, header_); }, "");
      expect_output_error([&] { check_writable(path, OverwriteMode::refuse); }, "");
    }
  }
  const fs::path longest = directory_ / std::string(220, 'x');
  RunFile run(longest, OverwriteMode::refuse, header_);
  run.finish(RunStatus::complete);
  EXPECT_TRUE(fs::exists(longest));
}

TEST_F(RunFileTest, CheckLeavesNoFile) {
  check_writable(path_, OverwriteMode::refuse);
  EXPECT_THAT(names_in(directory_.path()), IsEmpty());
  put(partial_, "left by a run");
  check_writable(path_, OverwriteMode::refuse);
  EXPECT_EQ(content(partial_), "left by a run");
}

TEST_F(RunFileTest, RejectsArraysOfAnotherSize) {
  RunFile run(path_, OverwriteMode::refuse, header_);
  run.append(samples::epoch(1, 4, header_));
  const std::string before = content(partial_);
  EpochRecord epoch = samples::epoch(2, 4, header_);
  epoch.phase_seconds.pop_back();
  expect_error(core::ExitStatus::internal, {}, [&] { run.append(epoch); });
  EXPECT_EQ(content(partial_), before);
}

// A limit on the file size makes writes fail in the same way as a full disk. The test uses a child
// process, which must also be able to exit normally after the failure.
TEST_F(RunFileTest, KeepsCompleteEpochsIfTheDiskIsFull) {
  const auto child = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    RunFile run(path_, OverwriteMode::refuse, header_);
    run.append(samples::epoch(1, 300, header_));
    run.append(samples::epoch(2, 300, header_));
    const rlim_t limit = fs::file_size(partial_) + 20'000;
    const rlimit limits{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &limits);
    const auto appended = failure_of([&] { run.append(samples::epoch(3, 300, header_)); });
    std::exit(appended.first == core::ExitStatus::output &&
                      appended.second.find("File too large") != std::string::npos
                  ? 0
                  : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
  EXPECT_FALSE(fs::exists(path_));
  const hdf5::File file = hdf5::open_file(partial_, hdf5::Access::read);
  EXPECT_THAT(read_doubles(file, "/epoch"), ElementsAre(1, 2));
  std::vector<double> expected = samples::values(1, 300);
  const std::vector<double> second = samples::values(2, 300);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(read_doubles(file, "/steps/loss"), expected);
}

TEST_F(RunFileTest, KeepsThePartialFileIfFinishingFails) {
  const auto child = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    RunFile run(path_, OverwriteMode::refuse, header_);
    run.append(samples::epoch(1, 300, header_));
    const rlimit limits{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limits);
    const auto finished = failure_of([&] { run.finish(RunStatus::complete); });
    std::exit(finished.first == core::ExitStatus::output ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "the measurements are in");
  EXPECT_THAT(names_in(directory_.path()), ElementsAre("run.h5.partial"));
  const hdf5::File file = hdf5::open_file(partial_, hdf5::Access::read);
  EXPECT_EQ(read_doubles(file, "/steps/phase_seconds"), samples::values(1, 300 * 3 * 6));
}

}  // namespace
}  // namespace lockstep::record
