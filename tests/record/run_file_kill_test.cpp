// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "files.hpp"
#include "killed_writer.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/record/run_file.hpp"
#include "reading.hpp"
#include "samples.hpp"
#include "temporary_directory.hpp"

namespace lockstep::record {
namespace {

constexpr std::size_t steps = 40;

/// Fails the test unless every epoch in the file is complete and has the expected values. Returns
/// the number of epochs.
std::size_t expect_whole_epochs(const std::filesystem::path& path, const RunHeader& header) {
  const hdf5::File file = hdf5::open_file(path, hdf5::Access::read_while_written);
  const std::vector<double> epochs = read_doubles(file, "/epoch");
  const std::vector<double> loss = read_doubles(file, "/steps/loss");
  const std::vector<double> phases = read_doubles(file, "/steps/phase_seconds");
  const std::size_t width = steps * header.ranks.size() * 6;
  EXPECT_GE(loss.size(), epochs.size() * steps);
  EXPECT_GE(phases.size(), epochs.size() * width);
  EXPECT_GE(read_doubles(file, "/epochs/test_accuracy").size(), epochs.size());
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i) + 1;
    const auto part = [](const std::vector<double>& all, std::size_t index, std::size_t count) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(index * count);
      return std::vector<double>(first, first + static_cast<std::ptrdiff_t>(count));
    };
    EXPECT_EQ(epochs[i], static_cast<double>(number));
    EXPECT_EQ(part(loss, i, steps), samples::values(number, steps));
    EXPECT_EQ(part(phases, i, width), samples::values(number, width));
  }
  return epochs.size();
}

TEST(KilledRun, KeepsAppendedEpochs) {
  const RunHeader header = samples::header(4, 3);
  core::Random random(11, core::RandomStream::test);
  for (int kill = 0; kill < 25; ++kill) {
    const TemporaryDirectory directory;
    const std::int64_t acknowledged = kill_writer(random, [&](const Acknowledgement& acknowledge) {
      RunFile run(directory / "run.h5", OverwriteMode::refuse, header);
      for (std::int64_t epoch = 1;; ++epoch) {
        run.append(samples::epoch(epoch, steps, header));
        acknowledge(epoch);
      }
    });
    EXPECT_GE(expect_whole_epochs(directory / "run.h5.partial", header),
              static_cast<std::size_t>(acknowledged))
        << "kill " << kill;
  }
}

TEST(KilledRun, LeavesNoFileThatIsIncompleteBeforeItsFirstEpoch) {
  const RunHeader header = samples::header(4, 3);
  core::Random random(13, core::RandomStream::test);
  for (int kill = 0; kill < 40; ++kill) {
    const TemporaryDirectory directory;
    const auto path = [&](std::int64_t i) {
      return directory / ("run" + std::to_string(i) + ".h5");
    };
    const std::int64_t acknowledged = kill_writer(random, [&](const Acknowledgement& acknowledge) {
      for (std::int64_t i = 1;; ++i) {
        acknowledge(i);
        RunFile run(path(i), OverwriteMode::refuse, header);
        run.append(samples::epoch(1, steps, header));
      }
    });
    // An empty file has only reserved the name; the next run deletes it.
    const std::filesystem::path last = path(acknowledged).string() + ".partial";
    if (!std::filesystem::exists(last) || std::filesystem::file_size(last) == 0) continue;
    EXPECT_NO_THROW(expect_whole_epochs(last, header)) << "kill " << kill;
  }
}

LadderRow point_of(std::int64_t index) {
  const auto value = static_cast<double>(index);
  return {index,
          "complete",
          value,
          value + 0.5,
          1 / (value + 1),
          static_cast<std::uint64_t>(index) + 7,
          static_cast<std::uint64_t>(index) + 9,
          index + 1,
          index % 2 == 0};
}

TEST(KilledRun, KeepsAppendedLadderPoints) {
  core::Random random(12, core::RandomStream::test);
  for (int kill = 0; kill < 10; ++kill) {
    const TemporaryDirectory directory;
    const std::int64_t acknowledged = kill_writer(random, [&](const Acknowledgement& acknowledge) {
      RunFile run(directory / "ladder.h5", OverwriteMode::refuse, samples::header(2, 0));
      for (std::int64_t index = 0;; ++index) {
        run.append(point_of(index));
        acknowledge(index + 1);
      }
    });
    const hdf5::File file =
        hdf5::open_file(directory / "ladder.h5.partial", hdf5::Access::read_while_written);
    const std::vector<double> points = read_doubles(file, "/point");
    const std::vector<double> seconds = read_doubles(file, "/ladder/training_seconds");
    EXPECT_GE(points.size(), static_cast<std::size_t>(acknowledged)) << "kill " << kill;
    ASSERT_GE(seconds.size(), points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(seconds[i], static_cast<double>(i) + 0.5);
    }
  }
}

}  // namespace
}  // namespace lockstep::record
