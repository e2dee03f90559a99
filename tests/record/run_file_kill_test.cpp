#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <limits>
#include <thread>

#include "hdf5.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/record/run_file.hpp"
#include "reading.hpp"
#include "samples.hpp"

namespace lockstep::record {
namespace {

constexpr std::size_t steps = 40;

/// Appends epochs without a pause until it is killed; says on `acknowledge` how many there are.
[[noreturn]] void write_forever(const std::filesystem::path& path, const RunHeader& header,
                                int acknowledge) {
  RunFile run(path, Existing::refuse, header);
  for (std::int64_t epoch = 1;; ++epoch) {
    run.append(samples::epoch(epoch, steps, header));
    if (::write(acknowledge, &epoch, sizeof epoch) < 0) ::_exit(1);
  }
}

/// Whether every epoch that the file names is there with all its numbers; gives their number.
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

TEST(KilledRun, LeavesEveryEpochThatWasAppended) {
  const RunHeader header = samples::header(4, 3);
  core::Random random(11, core::RandomStream::test);
  for (int kill = 0; kill < 25; ++kill) {
    const samples::Directory directory;
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t writer = ::fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) {
      ::close(pipe[0]);
      write_forever(directory / "run.h5", header, pipe[1]);
    }
    ::close(pipe[1]);
    std::int64_t acknowledged = 0;
    ASSERT_EQ(::read(pipe[0], &acknowledged, sizeof acknowledged),
              static_cast<ssize_t>(sizeof acknowledged));
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(20'000)));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    std::int64_t more = 0;
    while (::read(pipe[0], &more, sizeof more) == sizeof more) acknowledged = more;
    ::close(pipe[0]);
    EXPECT_GE(expect_whole_epochs(directory / "run.h5.partial", header),
              static_cast<std::size_t>(acknowledged))
        << "kill " << kill;
  }
}

}  // namespace
}  // namespace lockstep::record
