// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::comm {

/// Memory that all ranks of a host can access, with one part per rank. Parts are zeroed and start
/// on a page; the kernel allocates the pages of each part on the NUMA node of the rank that owns
/// it.
///
/// The parts are anonymous files (memfd_create) that the ranks open through /proc. An MPI window
/// (MPI_Win_allocate_shared) is no alternative: Open MPI 4.1 creates its file in /dev/shm, whose
/// size is limited (64 MB in Docker by default), and if it is full, one rank returns an error while
/// the others never return from the call.
class SharedMemory {
 public:
  /// `memory` is null on all ranks if any rank failed. In this case `failure` is the reason on each
  /// rank that failed, and empty on the others.
  struct Allocation {
    std::shared_ptr<SharedMemory> memory;
    std::string failure;
  };

  /// Allocates `bytes` per rank, which must be the same on all ranks. All pages are allocated here,
  /// so that a lack of memory cannot terminate a rank later. Collective over `host`, the ranks of
  /// one host.
  static Allocation allocate(MPI_Comm host, std::size_t bytes);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Returns the part of the rank with the local rank `rank`.
  std::span<std::byte> part(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }

 private:
  SharedMemory() = default;
  void map(int file, std::size_t bytes);

  std::vector<std::span<std::byte>> parts_;
};

}  // namespace lockstep::comm
