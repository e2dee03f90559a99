#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>
#include <string>

namespace lockstep::comm {

/// The calls by which a communicator works, so that tests can play their failures without a GPU.
/// These here are the library's. What a call writes to must stay where it is until `state` is no
/// longer ncclInProgress.
class NcclCalls {
 public:
  virtual ~NcclCalls() = default;
  NcclCalls() = default;
  NcclCalls(const NcclCalls&) = delete;
  NcclCalls& operator=(const NcclCalls&) = delete;

  virtual ncclResult_t make_id(ncclUniqueId& id);
  /// A communicator that never blocks the host. `name`: a literal.
  virtual ncclResult_t open(ncclComm_t& comm, int ranks, const ncclUniqueId& id, int rank,
                            const char* name);
  virtual ncclResult_t state(ncclComm_t comm, ncclResult_t& state);
  virtual std::string last_error(ncclComm_t comm);

  /// In place.
  virtual ncclResult_t sum(void* data, std::size_t elements, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
  /// cudaSuccess once all that was queued has been done, else cudaErrorNotReady or an error.
  virtual cudaError_t query(cudaStream_t stream);

  /// `window` stays null where the GPUs cannot see each other's memory.
  virtual ncclResult_t register_window(ncclComm_t comm, std::span<std::byte> memory,
                                       ncclWindow_t& window);
  virtual ncclResult_t deregister_window(ncclComm_t comm, ncclWindow_t window);
  virtual ncclResult_t register_buffer(ncclComm_t comm, std::span<std::byte> memory, void*& handle);
  virtual ncclResult_t deregister_buffer(ncclComm_t comm, void* handle);

  virtual ncclResult_t finalize(ncclComm_t comm);
  virtual ncclResult_t destroy(ncclComm_t comm);
  virtual ncclResult_t abort(ncclComm_t comm);
};

}  // namespace lockstep::comm
