#include <mpi.h>

#include <cstdlib>
#include <exception>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/launcher.hpp"
#include "lockstep/core/error.hpp"
#include "mpi_check.hpp"

namespace lockstep::comm {

namespace {

/// Open MPI sends messages over TCP beyond 64 KiB only after a handshake, for which both sides must
/// be in MPI; with a compute kernel between two calls that idles the link. Messages of the pieces
/// leave at once instead. What a person or the launcher has set wins; other libraries do not look.
void prefer_eager_messages() {
  constexpr int keep = 0;
  setenv("OMPI_MCA_btl_tcp_eager_limit", "270336", keep);  // 256 KiB and room for a header
  setenv("OMPI_MCA_btl_tcp_max_send_size", "270336", keep);
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  // Before MPI starts, which may set some of these variables itself.
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
    MPI_Finalize();  // every rank comes here, or this is the only one
    throw;
  }
}

MpiSession::~MpiSession() {
  // MPI_Finalize waits for all ranks. Where an error is on its way out, the others may never come:
  // leaving without it makes the launcher end them.
  if (owns_mpi_ && std::uncaught_exceptions() == 0) MPI_Finalize();
}

}  // namespace lockstep::comm
