// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

namespace lockstep::comm {

/// Returns name and version of an MPI library, for example "Open MPI 4.1.4" or "MPICH 5.0.2".
/// `description`: the text of MPI_Get_library_version, whose form depends on the library. Returns
/// its first line if that has no version number.
std::string name_and_version(std::string_view description);

}  // namespace lockstep::comm
