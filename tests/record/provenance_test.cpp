#include "lockstep/record/provenance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace lockstep::record {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

TEST(Provenance, RecordsListedVariablesAndNoOthers) {
  ::setenv("SLURM_JOB_ID", "4711", 1);
  ::setenv("OMP_NUM_THREADS", "3", 1);
  ::setenv("LOCKSTEP_TEST_UNLISTED", "x", 1);
  const Attributes attributes = provenance();
  EXPECT_THAT(attributes, Contains(Pair("SLURM_JOB_ID", "4711")));
  EXPECT_THAT(attributes, Contains(Pair("OMP_NUM_THREADS", "3")));
  EXPECT_THAT(attributes, Not(Contains(Key("LOCKSTEP_TEST_UNLISTED"))));
  EXPECT_THAT(attributes, Not(Contains(Key("PATH"))));
}

TEST(Provenance, OmitsSecrets) {
  for (const char* name :
       {"SLURM_JWT", "UCX_SOME_TOKEN", "OMPI_MCA_orte_precondition_transports"}) {
    ::setenv(name, "swordfish", 1);
  }
  EXPECT_THAT(provenance(), Each(Pair(testing::_, Not(HasSubstr("swordfish")))));
}

TEST(Provenance, NamesTheBuildAndTheLibraries) {
  const Attributes attributes = provenance();
  for (const char* name : {"lockstep_version", "git_commit", "compiler", "build_type",
                           "hdf5_version", "operating_system", "cpu_model"}) {
    EXPECT_THAT(attributes, Contains(Pair(name, Not("")))) << name;
  }
  EXPECT_THAT(build_id(), HasSubstr("commit"));
}

TEST(DescribeProcess, ReturnsHostProcessorsAndMemory) {
  const RankInfo info = describe_process();
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(info.hostname, host);
  EXPECT_THAT(info.cpu_list, testing::MatchesRegex("[0-9,-]+"));
  EXPECT_NE(info.device_name, "");
  EXPECT_EQ(info.device_uuid, "");
  // MemTotal does not include the memory that the kernel reserves, which is less than a quarter of
  // the physical memory.
  const auto physical =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  EXPECT_NEAR(static_cast<double>(info.memory_bytes), physical, physical / 4);
}

}  // namespace
}  // namespace lockstep::record
