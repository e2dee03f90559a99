#pragma once

#include <mpi.h>

#include <string>
#include <string_view>

#include "lockstep/core/handle.hpp"

namespace lockstep::comm {

/// Throws `Error` (internal) with the name of the call and the error string of MPI if `status` is
/// not MPI_SUCCESS.
void check_mpi(int status, std::string_view call);

/// Returns the name and version of the MPI library, for example "Open MPI v4.1.4".
std::string mpi_library_version();

struct MpiCommTraits {
  using type = MPI_Comm;
  static type null() noexcept { return MPI_COMM_NULL; }
  /// Frees `comm`, unless MPI is finalised or an exception propagates.
  static void close(type comm) noexcept;
};
using MpiComm = core::Handle<MpiCommTraits>;

}  // namespace lockstep::comm
