#pragma once

#include <memory>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// All ranks of the running test program.
inline std::unique_ptr<Communicator> make_world() {
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);  // joins the MPI that main started
  return make_communicator(session);
}

}  // namespace lockstep::comm
