// SPDX-License-Identifier: BSD-3-Clause
#include "library_version.hpp"

#include <gtest/gtest.h>

#include <string_view>

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

}  // namespace
}  // namespace lockstep::comm
