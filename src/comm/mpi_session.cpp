#include <mpi.h>

#include <cstdlib>
#include <exception>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/launcher.hpp"
#include "lockstep/core/error.hpp"
#include "mpi_check.hpp"

namespace lockstep::comm {

namespace {

/// Open MPI sends messages of more than 64 KiB over TCP only after a rendezvous handshake, for
/// which both ranks must be in an MPI call; while one of them executes a compute kernel, the link
/// is idle. This raises the eager limit so that the messages of the algorithm `pieces` are sent
/// immediately. Values that the user or the launcher has set take precedence; other MPI libraries
/// ignore these variables.
void prefer_eager_messages() {
  constexpr int keep = 0;
  setenv("OMPI_MCA_btl_tcp_eager_limit", "270336", keep);  // 256 KiB plus space for a header
  setenv("OMPI_MCA_btl_tcp_max_send_size", "270336", keep);
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  // Read the variables before MPI_Init_thread, which may set some of them itself.
  const auto promise = promised_ranks([](const char* name) { return std::getenv(name); });
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0) return;

  prefer_eager_messages();
  int threads = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &threads), "MPI_Init_thread");
  owns_mpi_ = true;
  try {
    if (threads < MPI_THREAD_FUNNELED) {
      core::fail(
          core::ExitStatus::usage,
          "this MPI library does not allow threads (MPI_THREAD_FUNNELED is refused); use one "
          "that was built with thread support");
    }
    int ranks = 0;
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
    refuse_singletons(promise, ranks);
  } catch (...) {
    MPI_Finalize();  // every rank gets here, or this is the only rank
    throw;
  }
}

MpiSession::~MpiSession() {
  // MPI_Finalize waits for all ranks. If an exception propagates, the other ranks may never call
  // it: without the call, the launcher terminates them.
  if (owns_mpi_ && std::uncaught_exceptions() == 0) MPI_Finalize();
}

}  // namespace lockstep::comm
