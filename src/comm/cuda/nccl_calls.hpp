// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/data_type.hpp"

namespace lockstep::comm {

class NcclCommunicator;

/// The calls of NCCL and CUDA that `NcclCommunicator` uses. This class calls the libraries; tests
/// override its functions to simulate failures without a GPU. The memory to which a call writes
/// must stay valid until `state` no longer returns ncclInProgress.
class NcclCalls {
 public:
  virtual ~NcclCalls() = default;
  NcclCalls() = default;
  NcclCalls(const NcclCalls&) = delete;
  NcclCalls& operator=(const NcclCalls&) = delete;

  virtual ncclResult_t make_id(ncclUniqueId& id);
  /// Creates a non-blocking communicator. `name`: a string literal.
  virtual ncclResult_t open(ncclComm_t& comm, int ranks, const ncclUniqueId& id, int rank,
                            const char* name);
  virtual ncclResult_t state(ncclComm_t comm, ncclResult_t& state);
  virtual std::string last_error(ncclComm_t comm);

  /// Enqueues the in-place sum over the ranks on `stream`.
  virtual ncclResult_t sum(void* data, std::size_t elements, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
  /// Enqueues the sum over the ranks, in place on rank `root`, on `stream`.
  virtual ncclResult_t reduce(void* data, std::size_t elements, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream);
  /// Enqueues the copy of the values of rank `root` to all ranks, in place, on `stream`.
  virtual ncclResult_t broadcast(void* data, std::size_t elements, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream);
  /// Returns cudaSuccess once all enqueued work is complete, otherwise cudaErrorNotReady or an
  /// error.
  virtual cudaError_t query(cudaStream_t stream);

  /// Registers `memory` as a symmetric window. `window` stays null if the GPUs cannot access the
  /// memory of each other.
  virtual ncclResult_t register_window(ncclComm_t comm, std::span<std::byte> memory,
                                       ncclWindow_t& window);
  virtual ncclResult_t deregister_window(ncclComm_t comm, ncclWindow_t window);
  virtual ncclResult_t register_buffer(ncclComm_t comm, std::span<std::byte> memory, void*& handle);
  virtual ncclResult_t deregister_buffer(ncclComm_t comm, void* handle);

  virtual ncclResult_t finalize(ncclComm_t comm);
  virtual ncclResult_t destroy(ncclComm_t comm);
  /// Called in a thread of its own, because it waits until no CUDA graph contains work of `comm`.
  virtual ncclResult_t abort(ncclComm_t comm);

  std::vector<NcclCommunicator*> communicators;  ///< that use these calls; one failure aborts all
};

/// Throws `Error` (internal) with the name of the call and the error string of NCCL if `status` is
/// not ncclSuccess.
void check_nccl(ncclResult_t status, std::string_view call);

/// Returns the version of the NCCL library in use, for example "NCCL 2.28.9".
std::string nccl_library_version();

/// Returns the data type of NCCL that corresponds to `type`.
ncclDataType_t nccl_type(core::DataType type);

}  // namespace lockstep::comm
