// SPDX-License-Identifier: BSD-3-Clause
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
  for (const char* name : {"PRTE_MCA_rmaps_default_mapping_policy", "PMIX_MCA_gds",
                           "MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD", "I_MPI_FABRICS",
                           "MPICH_OFI_NIC_POLICY", "FI_PROVIDER", "UCX_TLS", "GOMP_CPU_AFFINITY",
                           "KMP_AFFINITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    ::setenv(name, "setting", 1);
    EXPECT_THAT(provenance(), Contains(Pair(name, "setting")));
  }
  ::setenv("LOCKSTEP_TEST_UNLISTED", "x", 1);
  const Attributes attributes = provenance();
  EXPECT_THAT(attributes, Contains(Pair("SLURM_JOB_ID", "4711")));
  EXPECT_THAT(attributes, Contains(Pair("OMP_NUM_THREADS", "3")));
  EXPECT_THAT(attributes, Not(Contains(Key("LOCKSTEP_TEST_UNLISTED"))));
  EXPECT_THAT(attributes, Not(Contains(Key("PATH"))));
}

TEST(Provenance, OmitsVariablesThatAreNotListed) {
  for (const char* name :
       {"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "SSH_AUTH_SOCK",
        "HTTPS_PROXY", "KRB5CCNAME", "MUNGE_KEY", "PMIX_SECURITY_MODE", "SLURMX", "XSLURM_JOB_ID",
        "slurm_job_id", "LOCKSTEP_DATA", "SINGULARITYENV_PASSWORD", "APPTAINER_DOCKER_PASSWORD"}) {
    ::setenv(name, "swordfish", 1);
  }
  EXPECT_THAT(provenance(), Each(Pair(testing::_, Not(HasSubstr("swordfish")))));
}

TEST(Provenance, OmitsListedVariablesWhoseNamesLookLikeSecrets) {
  for (const char* name :
       {"SLURM_JWT", "UCX_SOME_TOKEN", "OMPI_MCA_orte_precondition_transports", "NCCL_AUTH",
        "NCCL_SOCKET_MAGIC", "OMPI_MCA_some_secret", "OMP_Password", "SLURM_CREDENTIALS",
        "UCX_APIKEY", "SLURM_EXPORT_ENV", "OMPI_MCA_mca_base_env_list"}) {
    ::setenv(name, "swordfish", 1);
  }
  EXPECT_THAT(provenance(), Each(Pair(testing::_, Not(HasSubstr("swordfish")))));
}

TEST(Provenance, OmitsListedVariablesWhoseValuesLookLikeSecrets) {
  for (const char* value :
       {"https://user:swordfish@host/path", "tcp://swordfish@host", "ALL,API_TOKEN=swordfish",
        "x?access_token=swordfish&y", "PASSWORD=swordfish", "Bearer swordfish", "a;key=swordfish",
        "eyJhbGciOiJIUzI1NiJ9.swordfish", "-----BEGIN PRIVATE KEY----- swordfish"}) {
    ::setenv("SLURM_JOB_COMMENT", value, 1);
    EXPECT_THAT(provenance(), Not(Contains(Key("SLURM_JOB_COMMENT")))) << value;
  }
  for (const char* value : {"preemption=yes;requeue=true", "https://host/path", "user@host", ""}) {
    ::setenv("SLURM_JOB_COMMENT", value, 1);
    EXPECT_THAT(provenance(), Contains(Pair("SLURM_JOB_COMMENT", value))) << value;
  }
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
  EXPECT_THAT(info.core_list, testing::MatchesRegex("[0-9,-]+"));
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
