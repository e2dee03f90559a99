// SPDX-License-Identifier: BSD-3-Clause
#include "launcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/agreement.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Environment = std::map<std::string, std::string>;

EnvironmentLookup lookup_in(const Environment& environment) {
  return [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

std::optional<Launch> announced_in(const Environment& environment) {
  return announced_launch(lookup_in(environment));
}

std::optional<int> rank_in(const Environment& environment) {
  const auto launch = announced_in(environment);
  return launch ? launch->rank : std::nullopt;
}

int ranks_in(const Environment& environment) {
  const auto launch = announced_in(environment);
  return launch ? launch->ranks.value_or(0) : 0;
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
  EXPECT_EQ(rank_in({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}}), 3);
  EXPECT_EQ(rank_in({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}}), 2);
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

TEST(Launcher, Pmi2OfSrunIsSrun) {
  Environment step{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"},
                   {"SLURM_PROCID", "1"},  {"PMI_JOBID", "14.0"},
                   {"PMI_SIZE", "2"},      {"PMI_RANK", "1"}};
  EXPECT_EQ(announced_in(step).value().launcher, "srun");
  step.erase("PMI_JOBID");
  EXPECT_EQ(announced_in(step).value().variable, "PMI_SIZE") << "mpiexec in a job step";
}

/// Returns whether Open MPI 4 takes the process for one of `srun` without PMIx.
bool lacks_pmix(const Environment& environment) {
  return is_step_without_pmix(lookup_in(environment));
}

TEST(Launcher, StepsWithoutPmixAreFound) {
  EXPECT_TRUE(lacks_pmix({{"SLURM_STEP_ID", "0"}}));
  EXPECT_TRUE(lacks_pmix({{"SLURM_STEP_ID", "4294967290"}})) << "shell of salloc";
  EXPECT_TRUE(lacks_pmix({{"SLURM_STEP_ID", "0"}, {"PMI_SIZE", "2"}})) << "srun --mpi=pmi2";
  EXPECT_FALSE(lacks_pmix({{"SLURM_STEP_ID", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.4.0"}}));
  EXPECT_FALSE(lacks_pmix({{"SLURM_JOB_ID", "7"}})) << "batch script";
}

TEST(Launcher, OneRankReportsTheRefusal) {
  const auto reports = [](const Environment& environment) {
    try {
      refuse_singletons(announced_in(environment), 1);
    } catch (const AgreedError& error) {
      return error.is_reporting();
    }
    ADD_FAILURE() << "not refused";
    return false;
  };
  EXPECT_TRUE(reports({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}));
  EXPECT_FALSE(reports({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}));
  EXPECT_TRUE(reports({{"ALPS_APP_PE", "1"}})) << "its rank 0 is not refused";
}

TEST(Launcher, TextThatIsNoNumberAnnouncesNoRanks) {
  EXPECT_FALSE(announced_in({{"OMPI_COMM_WORLD_SIZE", "many"}}));
  EXPECT_FALSE(announced_in({{"OMPI_COMM_WORLD_SIZE", ""}}));
  EXPECT_FALSE(announced_in({{"OMPI_COMM_WORLD_SIZE", "4x"}}));
}

bool kills_ranks_in(const Environment& environment) { return kills_ranks(lookup_in(environment)); }

TEST(Launcher, MpirunOfOpenMpiKillsRanksUnlessVersionFourHasATimeout) {
  constexpr const char* timeout = "OMPI_MCA_odls_base_sigkill_timeout";
  Environment mpirun{{"OMPI_COMM_WORLD_SIZE", "2"}, {"PRTE_LAUNCHED", "1"}};
  EXPECT_TRUE(kills_ranks_in(mpirun));
  for (const char* setting : {timeout, "PRTE_MCA_odls_base_sigkill_timeout"}) {
    mpirun[setting] = "30";
    EXPECT_TRUE(kills_ranks_in(mpirun)) << "version 5 ignores it";
  }
  Environment mpirun_4{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_MCA_orte_launch", "1"}};
  EXPECT_TRUE(kills_ranks_in(mpirun_4));
  mpirun_4[timeout] = "1";
  EXPECT_TRUE(kills_ranks_in(mpirun_4)) << "the default";
  mpirun_4[timeout] = "30";
  EXPECT_FALSE(kills_ranks_in(mpirun_4));
}

TEST(Launcher, OtherLaunchersForwardSignals) {
  EXPECT_FALSE(kills_ranks_in({}));
  EXPECT_FALSE(kills_ranks_in({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}));
  EXPECT_FALSE(kills_ranks_in({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}}));
}

/// Returns the message of the refusal; empty if the environment is accepted.
std::string refusal(const Environment& environment, int mpi_ranks = 1) {
  try {
    refuse_singletons(announced_in(environment), mpi_ranks);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::usage);
    return error.what();
  }
  return "";
}

TEST(Launcher, RefusesSingletonsWithARemedy) {
  const Environment srun{
      {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}};
#ifdef OPEN_MPI
  const std::string remedy = "srun --mpi=pmix";
#else
  const std::string remedy = "srun --mpi=pmi2";
#endif
  EXPECT_THAT(refusal(srun), AllOf(HasSubstr("SLURM_STEP_NUM_TASKS=4"), HasSubstr(remedy)));
  EXPECT_EQ(refusal(srun, 4), "");
  for (const auto& [environment, launcher] : std::vector<std::pair<Environment, std::string>>{
           {{{"OMPI_COMM_WORLD_SIZE", "2"}}, "Open MPI"},
           {{{"MV2_COMM_WORLD_SIZE", "2"}}, "MVAPICH"},
           {{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}, "MPICH"},
           {{{"FLUX_JOB_SIZE", "2"}, {"FLUX_TASK_RANK", "0"}, {"PMI_SIZE", "2"}}, "flux"},
           {{{"PALS_SIZE", "2"}, {"PALS_RANKID", "0"}}, "PALS"},
           {{{"JSM_NAMESPACE_SIZE", "2"}}, "jsrun"},
           {{{"HOROVOD_SIZE", "2"}, {"HOROVOD_RANK", "0"}}, "horovodrun"},
           {{{"WORLD_SIZE", "2"},
             {"RANK", "0"},
             {"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "0"},
             {"SLURM_NTASKS", "1"}},
            "torchrun"},
           {{{"ALPS_APP_PE", "1"}}, "rank 1 was started by aprun"}}) {
    EXPECT_THAT(refusal(environment), HasSubstr(launcher));
    EXPECT_EQ(refusal(environment, 2), "");
  }
}

TEST(Launcher, AcceptsSingleRanksAndVariablesThatAreLeftOver) {
  for (const Environment& environment :
       std::vector<Environment>{{},
                                {{"WORLD_SIZE", "2"}},
                                {{"WORLD_SIZE", "1"}, {"RANK", "0"}},
                                {{"RANK", "3"}},
                                {{"OMPI_COMM_WORLD_SIZE", "1"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}},
                                {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}},
                                {{"PMIX_RANK", "0"}}}) {
    EXPECT_EQ(refusal(environment), "");
  }
  EXPECT_FALSE(announced_in({{"WORLD_SIZE", "1"}, {"RANK", "0"}}));
}

}  // namespace
}  // namespace lockstep::comm
