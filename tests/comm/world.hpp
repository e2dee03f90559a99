// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/mpi_session.hpp"

namespace lockstep::comm {

/// Returns a communicator of all ranks of the running test program. Collective: all ranks must call
/// this.
inline std::unique_ptr<Communicator> make_world() {
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);  // uses MPI, which main has initialised
  return make_communicator(session);
}

}  // namespace lockstep::comm
