// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "lockstep/core/handle.hpp"

namespace lockstep::comm {

/// Throws `Error` (internal) with the name of the call and the error string of MPI if `status` is
/// not MPI_SUCCESS.
void check_mpi(int status, std::string_view call);

struct MpiCommTraits {
  using type = MPI_Comm;
  static type null() noexcept { return MPI_COMM_NULL; }
  /// Frees `comm`, unless MPI is finalised or an exception propagates.
  static void close(type comm) noexcept;
};
/// An MPI communicator whose calls return error codes.
using MpiComm = core::Handle<MpiCommTraits>;

/// Duplicates `comm`. `name`: for debuggers. Collective over `comm`.
MpiComm duplicate(MPI_Comm comm, const char* name);
/// Creates the communicator of the ranks of `comm` that pass the same `colour`, ordered by `key`;
/// null if `colour` is MPI_UNDEFINED. Collective over `comm`.
MpiComm split(MPI_Comm comm, int colour, int key);
/// Creates the communicator of the ranks of `comm` that can share memory with this rank. Collective
/// over `comm`.
MpiComm split_by_host(MPI_Comm comm);

/// The communicators of a group of ranks. They are owned by the `Communicator` of the group.
struct MpiRanks {
  MPI_Comm all;
  MPI_Comm host;  ///< the ranks of this host
};

int rank_in(MPI_Comm comm);
int size_of(MPI_Comm comm);

/// A fixed number of MPI requests; the caller chooses the index of each request.
class Requests {
 public:
  explicit Requests(std::size_t count)
      : requests_(count, MPI_REQUEST_NULL), completed_(requests_.size()) {}
  /// Cancels active requests, because MPI would still write to their buffers.
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  MPI_Request& operator[](std::size_t index) { return requests_[index]; }

  /// Calls `handle(index)` for each request that has completed; returns false if there was none.
  /// Does not block.
  template <class Handle>
  bool take_completed(Handle&& handle) {
    int count = 0;
    check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                           completed_.data(), MPI_STATUSES_IGNORE),
              "MPI_Testsome");
    for (int i = 0; i < count; ++i)  // MPI_UNDEFINED (no active request) is negative
      handle(static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]));
    return count > 0;
  }

 private:
  std::vector<MPI_Request> requests_;
  std::vector<int> completed_;
};

}  // namespace lockstep::comm
