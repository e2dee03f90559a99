#include "shared_memory.hpp"

#include <cstring>
#include <exception>

#include "lockstep/core/error.hpp"
#include "mpi_check.hpp"

namespace lockstep::comm {

std::shared_ptr<SharedMemory> SharedMemory::allocate(MPI_Comm host, std::size_t bytes) {
  int rank = 0, ranks = 0;
  check_mpi(MPI_Comm_rank(host, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host, &ranks), "MPI_Comm_size");
  MPI_Info info = MPI_INFO_NULL;
  check_mpi(MPI_Info_create(&info), "MPI_Info_create");
  check_mpi(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  void* base = nullptr;
  int has_failed = MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, info, host, &base,
                                           &memory->window_) != MPI_SUCCESS;
  MPI_Info_free(&info);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &has_failed, 1, MPI_INT, MPI_MAX, host), "MPI_Allreduce");
  if (has_failed != 0) return nullptr;
  // One epoch for the window's whole life: the ranks synchronise by atomics in it.
  check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, memory->window_), "MPI_Win_lock_all");
  for (int peer = 0; peer < ranks; ++peer) {
    MPI_Aint size = 0;
    int unit = 0;
    void* part = nullptr;
    check_mpi(MPI_Win_shared_query(memory->window_, peer, &size, &unit, &part),
              "MPI_Win_shared_query");
    memory->parts_.emplace_back(static_cast<std::byte*>(part), bytes);  // `size` is in whole pages
  }
  if (bytes > 0) std::memset(memory->part(rank).data(), 0, bytes);
  check_mpi(MPI_Barrier(host), "MPI_Barrier");  // nobody sees it before it is zeroed
  return memory;
}

SharedMemory::~SharedMemory() {
  if (window_ == MPI_WIN_NULL || std::uncaught_exceptions() > 0) return;
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

}  // namespace lockstep::comm
