#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "mpi_check.hpp"

namespace lockstep::comm {

/// A fixed number of MPI requests; the caller chooses the index of each request.
class Requests {
 public:
  explicit Requests(std::size_t count)
      : requests_(count, MPI_REQUEST_NULL), completed_(requests_.size()) {}
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  ~Requests() {
    // Requests are still active if an all-reduce was abandoned (this rank leaves because of an
    // error). They are cancelled, because MPI would still write to the buffers.
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }

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
