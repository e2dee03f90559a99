#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::comm {

/// Memory that all ranks of a host see, a part of each rank's own (an MPI-3 window). Parts are
/// zeroed, start on a page and are first touched by their rank, so that they lie near it.
class SharedMemory {
 public:
  /// `bytes` for this rank, as for every other. Null, on all ranks alike, where the system has no
  /// such memory. Collective over `host`.
  static std::shared_ptr<SharedMemory> allocate(MPI_Comm host, std::size_t bytes);

  ~SharedMemory();  ///< Collective, except where an error unwinds.
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> part(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }

 private:
  SharedMemory() = default;

  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<std::span<std::byte>> parts_;
};

}  // namespace lockstep::comm
