#pragma once

#include <mpi.h>

#include <string>
#include <string_view>

#include "lockstep/core/handle.hpp"

namespace lockstep::comm {

/// Throws `Error` (internal), naming the call and MPI's reason, where `status` is not success.
void check_mpi(int status, std::string_view call);

/// "Open MPI v4.1.4"
std::string mpi_library_version();

struct MpiCommTraits {
  using type = MPI_Comm;
  static type null() noexcept { return MPI_COMM_NULL; }
  static void close(type comm) noexcept;
};
using MpiComm = core::Handle<MpiCommTraits>;

}  // namespace lockstep::comm
