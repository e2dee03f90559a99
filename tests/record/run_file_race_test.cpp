// SPDX-License-Identifier: BSD-3-Clause
// Tests two processes that start a run with the same output file at the same time.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <thread>

#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/record/run_file.hpp"
#include "samples.hpp"
#include "temporary_directory.hpp"

namespace lockstep::record {
namespace {

/// Counters in memory that the processes of the test share.
struct Shared {
  std::atomic<int> ready{0}, attempted{0}, owners{0}, refused{0}, lost{0};
};

void wait_for(const std::atomic<int>& value, int target) {
  while (value.load() < target) std::this_thread::yield();
}

/// Opens the run file at the same time as the other process, or `delay` microseconds later, and
/// keeps it open until both processes have tried. Ends the process.
[[noreturn]] void start_run(const std::filesystem::path& path, Shared& shared, int delay) {
  const RunHeader header = samples::header(1, 0);
  ++shared.ready;
  wait_for(shared.ready, 2);
  std::this_thread::sleep_for(std::chrono::microseconds(delay));
  try {
    RunFile run(path, OverwriteMode::refuse, header);
    ++shared.owners;
    ++shared.attempted;
    wait_for(shared.attempted, 2);
    run.append(samples::epoch(1, 4, header));
    run.finish(RunStatus::complete);
    const hdf5::File file = hdf5::open_file(path, hdf5::Access::read);
    if (hdf5::text_attribute(file.get(), "run_id") != run.run_id()) ++shared.lost;
  } catch (const core::Error& error) {
    if (error.status() != core::ExitStatus::output) ++shared.lost;
    ++shared.refused;
    ++shared.attempted;
  } catch (...) {
    ++shared.lost;
    ++shared.attempted;
  }
  ::_exit(0);
}

TEST(RunsStartedTogether, OneWritesTheFileAndTheOtherFails) {
  auto* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  for (int round = 0; round < 80; ++round) {
    auto& shared = *new (memory) Shared;
    const TemporaryDirectory directory;
    // In every third round there is a file of a killed run, which both processes try to rename.
    if (round % 3 == 2) {
      RunFile killed(directory / "run.h5", OverwriteMode::refuse, samples::header(1, 0));
    }
    pid_t children[2];
    for (int child = 0; child < 2; ++child) {
      children[child] = ::fork();
      ASSERT_GE(children[child], 0);
      if (children[child] == 0) start_run(directory / "run.h5", shared, child * (round % 40) * 10);
    }
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
    ASSERT_EQ(shared.owners, 1) << "round " << round;
    ASSERT_EQ(shared.refused, 1) << "round " << round;
    ASSERT_EQ(shared.lost, 0) << "round " << round;
    ASSERT_TRUE(std::filesystem::exists(directory / "run.h5"));
    ASSERT_FALSE(std::filesystem::exists(directory / "run.h5.partial"));
  }
  ::munmap(memory, sizeof(Shared));
}

}  // namespace
}  // namespace lockstep::record
