// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Types that the files of the simulated NCCL share.

#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime.hpp"

namespace lockstep::simulated_gpu {

/// The part of a communicator that queued work keeps alive.
struct NcclState {
  MPI_Comm mpi = MPI_COMM_NULL;
  std::int64_t id = 0;  ///< the same on all ranks
  int rank = 0, size = 1;
  std::atomic<bool> is_aborted = false;  ///< queued work ends without a result
};

/// Memory that is registered with a communicator.
struct NcclRegistration {
  const std::byte* data;
  std::size_t bytes;
};

}  // namespace lockstep::simulated_gpu

/// The type behind the opaque handle.
struct ncclComm {
  std::shared_ptr<lockstep::simulated_gpu::NcclState> state;
  /// Held by every graph that contains work of the communicator.
  std::shared_ptr<const int> graphs = std::make_shared<const int>(0);
  int polls = 0;                      ///< state queries until the last call is complete
  ncclResult_t result = ncclSuccess;  ///< of the last call, when it is complete
  std::string last_error;
  std::function<void()> pending;  ///< enqueues the work of the last call when it is complete
  std::vector<std::unique_ptr<lockstep::simulated_gpu::NcclRegistration>> registrations;
  bool is_finalized = false;
};

namespace lockstep::simulated_gpu {

/// Begins a call of a non-blocking communicator, which is complete after some state queries with
/// `result`; then `enqueue_work` is called. Reports a violation if the last call is not complete.
ncclResult_t begin_call(ncclComm_t comm, const char* call, ncclResult_t result = ncclSuccess,
                        std::function<void()> enqueue_work = {});

}  // namespace lockstep::simulated_gpu
