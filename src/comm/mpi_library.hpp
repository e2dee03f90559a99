// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "launcher.hpp"

namespace lockstep::comm {

/// The MPI library that is loaded; the environment can replace that of the build.
struct MpiLibrary {
  std::string description;     ///< text of MPI_Get_library_version
  std::filesystem::path file;  ///< without symbolic links

  bool is_mpich() const { return description.starts_with("MPICH"); }
};

/// Returns the loaded library. May be called before MPI_Init.
MpiLibrary loaded_mpi_library();

/// Returns name and version of an MPI library, for example "Open MPI 4.1.4" or "MPICH 5.0.2".
/// `description`: the text of MPI_Get_library_version, whose form depends on the library. Returns
/// its first line if that has no version number.
std::string name_and_version(std::string_view description);

/// Throws `AgreedError` (usage), which rank 0 reports, if MPI_Init of the library would end the
/// process with many lines of its own: mpirun of another Open MPI or the environment sets
/// OPAL_PREFIX, where the library finds its components; or a launcher with PMIx started MPICH that
/// was built without it.
void refuse_foreign_mpirun(const MpiLibrary& library, const EnvironmentLookup& lookup);

}  // namespace lockstep::comm
