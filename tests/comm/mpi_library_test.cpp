// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "temporary_directory.hpp"

namespace lockstep::comm {
namespace {

struct Case {
  std::string_view description, expected;
};

// The texts of Open MPI, MPICH and Intel MPI are those of the libraries; the others have the form
// that their documentation and reports of users show.
TEST(LibraryVersion, IsANameAndANumber) {
  constexpr Case cases[] = {
      {"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022",
       "Open MPI 4.1.4"},
      {"Open MPI v5.0.11, package: Open MPI user@localhost Distribution, ident: 5.0.11, repo rev: "
       "v5.0.11rc1, Sep 16, 2026",
       "Open MPI 5.0.11"},
      {"MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25 20:45:26 UTC 2026\nMPICH ABI:   "
       "       18:2:6\n",
       "MPICH 5.0.2"},
      {"Intel(R) MPI Library 2021.19.0 for Linux* OS\n", "Intel MPI 2021.19.0"},
      {"MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date :\tWed March 02 2022\n",
       "MVAPICH2 2.3.7"},
      {"MVAPICH Version:         4.0\n", "MVAPICH 4.0"},
      {"MPI VERSION    : CRAY MPICH version 8.1.26.11 (ANL base 3.4a2)\nMPI BUILD INFO : ...\n",
       "CRAY MPICH 8.1.26.11"},
      {"HPE MPT 2.25  08/16/21 03:12:20", "HPE MPT 2.25"},
      {"a library without a number", "a library without a number"},
      {"", ""},
  };
  for (const auto& [description, expected] : cases)
    EXPECT_EQ(name_and_version(description), expected);
}

/// Returns the message of the refusal under an mpirun of Open MPI; empty if it is accepted.
std::string refusal(const MpiLibrary& library, std::map<std::string, std::string> environment) {
  try {
    refuse_foreign_mpirun(library, [&](const char* name) -> const char* {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    });
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), core::ExitStatus::usage);
    return error.what();
  }
  return "";
}

TEST(ForeignMpirun, IsRefusedIfMpiInitWouldFail) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  const MpiLibrary debian{"Open MPI v4.1.4, package: ...", "/usr/lib/x86/libmpi.so.40.30.4"};
  const MpiLibrary mpich{"MPICH Version:      5.0.2\nMPICH configure: --with-pm=hydra",
                         "/m/libmpi.so.12"};
  const MpiLibrary mpich_pmix{"MPICH Version: 5.0.2\nMPICH configure: --with-pmix=/p",
                              "/m/libmpi.so.12"};
  const MpiLibrary static_library{"Open MPI v4.1.4", "/opt/bin/lockstep"};
  const auto under = [](const std::string& prefix) {
    std::map<std::string, std::string> environment{{"OMPI_COMM_WORLD_SIZE", "2"},
                                                   {"PMIX_NAMESPACE", "n"}};
    if (!prefix.empty()) environment["OPAL_PREFIX"] = prefix;
    return environment;
  };
  EXPECT_THAT(refusal(debian, under("/opt/wheel")),
              AllOf(HasSubstr("Open MPI 4.1.4 (/usr/lib/x86/libmpi.so.40.30.4)"),
                    HasSubstr("LD_LIBRARY_PATH=/opt/wheel/lib")));
  EXPECT_THAT(refusal(debian, under("/us")), HasSubstr("OPAL_PREFIX=/us"));
  EXPECT_THAT(refusal(mpich, under("")), HasSubstr("MPICH 5.0.2 (/m/libmpi.so.12)"));
  EXPECT_EQ(refusal(debian, under("")), "");
  EXPECT_EQ(refusal(debian, under("/usr")), "");
  EXPECT_EQ(refusal(static_library, under("/usr")), "");
  EXPECT_EQ(refusal(mpich_pmix, under("/opt/wheel")), "");
  EXPECT_THAT(refusal(debian, {{"OPAL_PREFIX", "/opt/hpcx"}}), HasSubstr("unset OPAL_PREFIX"));
  EXPECT_THAT(refusal(mpich, {{"PMIX_NAMESPACE", "slurm.pmix.7.0"}}), HasSubstr("srun --mpi=pmi2"));
  EXPECT_EQ(refusal(mpich, {{"PMI_SIZE", "2"}}), "");
}

// A program that is copied to a machine without Open MPI, with its libraries in one folder, and
// components and texts in another.
TEST(ForeignMpirun, PrefixWithoutALibraryIsThatOfTheLoadedOne) {
  namespace fs = std::filesystem;
  const TemporaryDirectory folder;
  const fs::path prefix = folder / "openmpi", components = prefix / "lib/x86/openmpi";
  const MpiLibrary copied{"Open MPI v4.1.4", folder / "lib/libmpi.so.40"};
  const std::map<std::string, std::string> environment{{"OPAL_PREFIX", prefix.string()}};
  fs::create_directories(components);
  EXPECT_NE(refusal(copied, environment), "") << "no texts";
  fs::create_directories(prefix / "share/openmpi");
  fs::create_symlink("nowhere", components / "libmpi.so");
  EXPECT_EQ(refusal(copied, environment), "");
  std::ofstream(prefix / "lib/libmpi.so.40") << "of another version";
  EXPECT_NE(refusal(copied, environment), "");
}

}  // namespace
}  // namespace lockstep::comm
