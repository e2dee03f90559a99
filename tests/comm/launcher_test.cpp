#include "launcher.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {
namespace {

using Environment = std::map<std::string, std::string>;

std::optional<AnnouncedRanks> announced_in(const Environment& environment) {
  return announced_ranks([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::optional<int> rank_in(const Environment& environment) {
  return announced_rank([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

int ranks_in(const Environment& environment) {
  const auto announced = announced_in(environment);
  return announced ? announced->ranks : 0;
}

TEST(Launcher, PlainShellAnnouncesNoRanks) { EXPECT_FALSE(announced_in({})); }

TEST(Launcher, MpirunAnnouncesItsRanks) {
  EXPECT_EQ(ranks_in({{"OMPI_COMM_WORLD_SIZE", "4"}}), 4);
  EXPECT_EQ(ranks_in({{"PMI_SIZE", "3"}, {"PMI_RANK", "0"}}), 3);
}

TEST(Launcher, SrunStepAnnouncesItsTasks) {
  EXPECT_EQ(ranks_in({{"SLURM_JOB_ID", "7"},
                      {"SLURM_NTASKS", "8"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_PROCID", "2"}}),
            4);
}

TEST(Launcher, OlderSrunWithoutStepTasksAnnouncesTheTasksOfTheJob) {
  EXPECT_EQ(ranks_in({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_ID", "3"}, {"SLURM_PROCID", "2"}}), 8);
}

TEST(Launcher, MpirunAndSrunAnnounceTheRank) {
  EXPECT_EQ(rank_in({{"OMPI_COMM_WORLD_RANK", "3"}}), 3);
  EXPECT_EQ(rank_in({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}}), 2);
  EXPECT_FALSE(rank_in({}));
  EXPECT_FALSE(rank_in({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}})) << "batch script";
  EXPECT_FALSE(rank_in({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_PTY_PORT", "1"}}))
      << "srun --pty bash";
}

TEST(Launcher, BatchScriptIsNoLauncher) {
  EXPECT_FALSE(announced_in({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}));
  // Some versions of Slurm give the batch step and the interactive step ids at the end of the
  // 32-bit range: 4294967291 is 2^32 - 5.
  for (const char* step : {"4294967291", "4294967290", "-5"}) {
    EXPECT_FALSE(announced_in({{"SLURM_NTASKS", "8"},
                               {"SLURM_STEP_ID", step},
                               {"SLURM_STEP_NUM_TASKS", "8"},
                               {"SLURM_PROCID", "0"}}))
        << step;
  }
}

TEST(Launcher, SallocShellIsNoLauncher) {
  EXPECT_FALSE(announced_in({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}}));
}

TEST(Launcher, TerminalInAStepIsNoLauncher) {
  EXPECT_FALSE(announced_in({{"SLURM_STEP_ID", "0"},
                             {"SLURM_STEP_NUM_TASKS", "4"},
                             {"SLURM_PROCID", "0"},
                             {"SLURM_PTY_PORT", "40001"}}));
}

TEST(Launcher, MpirunInsideAStepDecides) {
  EXPECT_EQ(ranks_in({{"OMPI_COMM_WORLD_SIZE", "1"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_PROCID", "0"}}),
            1);
}

TEST(Launcher, TextThatIsNoNumberAnnouncesNoRanks) {
  EXPECT_FALSE(announced_in({{"OMPI_COMM_WORLD_SIZE", "many"}}));
  EXPECT_FALSE(announced_in({{"OMPI_COMM_WORLD_SIZE", ""}}));
  EXPECT_FALSE(announced_in({{"OMPI_COMM_WORLD_SIZE", "4x"}}));
}

TEST(Launcher, RefusesSingletonsWithARemedy) {
  try {
    refuse_singletons(AnnouncedRanks{"SLURM_STEP_NUM_TASKS", 4}, 1);
    FAIL() << "4 singletons were accepted";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::usage);
    const std::string message = error.what();
    EXPECT_NE(message.find("SLURM_STEP_NUM_TASKS=4"), std::string::npos) << message;
    EXPECT_NE(message.find("srun --mpi=pmix"), std::string::npos) << message;
  }
  EXPECT_THROW(refuse_singletons(AnnouncedRanks{"OMPI_COMM_WORLD_SIZE", 2}, 1), core::Error);
}

TEST(Launcher, AcceptsWhatAgrees) {
  refuse_singletons(std::nullopt, 1);
  refuse_singletons(std::nullopt, 4);
  refuse_singletons(AnnouncedRanks{"SLURM_STEP_NUM_TASKS", 1}, 1);
  refuse_singletons(AnnouncedRanks{"SLURM_STEP_NUM_TASKS", 4}, 4);
}

}  // namespace
}  // namespace lockstep::comm
