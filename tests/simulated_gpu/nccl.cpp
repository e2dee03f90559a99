// Replaces NCCL: communicators that connect MPI ranks, for the simulated GPUs of these ranks. All
// communicators are non-blocking: a call is complete, and its work is in the stream, only after
// several queries of the state.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "nccl_state.hpp"

namespace lockstep::simulated_gpu {

namespace {

constexpr int polls_per_call = 2;

ncclComm_t make_comm(MPI_Comm mpi) {
  static std::int64_t communicators = 0;
  auto state = std::make_shared<NcclState>();
  state->mpi = mpi;
  state->id = ++communicators;
  MPI_Comm_rank(mpi, &state->rank);
  MPI_Comm_size(mpi, &state->size);
  auto* const comm = new ncclComm;
  comm->state = std::move(state);
  return comm;
}

/// Reports a violation if a graph contains work of the communicator: NCCL would wait for the
/// destruction of the graph.
void require_no_graph(ncclComm_t comm, const char* call) {
  if (comm->graphs.use_count() > 1)
    violation("communicator destroyed before the graphs that use it", call);
}

void require_registered(const ncclComm& comm, const void* handle, const char* call) {
  if (std::ranges::none_of(comm.registrations,
                           [&](const auto& one) { return one.get() == handle; }))
    violation("registration of memory with NCCL", fmt::format("{} of an unknown handle", call));
}

/// Ends a communicator after `finalize` or an error.
void close(ncclComm_t comm, const char* call) {
  require_no_graph(comm, call);
  comm->state->is_aborted = true;
  delete comm;
}

ncclResult_t deregister(ncclComm_t comm, const void* handle, const char* call) {
  require_registered(*comm, handle, call);
  std::erase_if(comm->registrations, [&](const auto& one) { return one.get() == handle; });
  return begin_call(comm, call);
}

/// Returns the handle of the new registration. Collective, like the registration of a window.
NcclRegistration* add_registration(ncclComm_t comm, void* data, std::size_t bytes) {
  Task probe{.reads = {{data, bytes}}};
  enqueue(cudaStreamLegacy, {.run = [] {}, .reads = std::move(probe.reads)});
  comm->registrations.push_back(
      std::make_unique<NcclRegistration>(NcclRegistration{static_cast<std::byte*>(data), bytes}));
  return comm->registrations.back().get();
}

}  // namespace

ncclResult_t begin_call(ncclComm_t comm, const char* call, ncclResult_t result,
                        std::function<void()> enqueue_work) {
  if (comm->polls > 0) violation("use of a communicator before its last call is complete", call);
  if (comm->is_finalized) violation("use of a finalized communicator", call);
  comm->polls = polls_per_call;
  comm->result = result;
  comm->pending = std::move(enqueue_work);
  return ncclInProgress;
}

}  // namespace lockstep::simulated_gpu

using namespace lockstep::simulated_gpu;

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclInProgress: return "NCCL operation in progress";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO)";
    default: return "simulated error";
  }
}
ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  std::strcpy(id->internal, "simulated");
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  require_no_capture("ncclCommInitRankConfig");
  MPI_Comm mpi = MPI_COMM_NULL;
  MPI_Comm_dup(ranks == 1 ? MPI_COMM_SELF : MPI_COMM_WORLD, &mpi);
  *comm = make_comm(mpi);
  const NcclState& state = *(*comm)->state;
  if (state.size != ranks || state.rank != rank || std::strcmp(id.internal, "simulated") != 0 ||
      config->blocking != 0)
    violation("arguments of ncclCommInitRankConfig", "ranks, id or configuration");
  const bool fails = allocation_fails();
  if (fails) (*comm)->last_error = "Cuda failure 'out of memory'";
  return begin_call(*comm, "ncclCommInitRankConfig", fails ? ncclUnhandledCudaError : ncclSuccess);
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t* group, ncclConfig_t*) {
  MPI_Comm mpi = MPI_COMM_NULL;
  MPI_Comm_split(comm->state->mpi, colour == NCCL_SPLIT_NOCOLOR ? MPI_UNDEFINED : colour, key,
                 &mpi);
  if (mpi != MPI_COMM_NULL) *group = make_comm(mpi);
  return begin_call(comm, "ncclCommSplit");
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (comm->polls > 0 && --comm->polls == 0 && comm->pending) std::exchange(comm->pending, {})();
  *result = comm->polls > 0 ? ncclInProgress : comm->result;
  return ncclSuccess;
}
const char* ncclGetLastError(ncclComm_t comm) { return comm->last_error.c_str(); }

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  require_no_graph(comm, "ncclCommFinalize");
  if (!comm->registrations.empty())
    violation("registration of memory with NCCL", "ncclCommFinalize before the deregistration");
  const ncclResult_t result = begin_call(comm, "ncclCommFinalize");
  comm->is_finalized = true;
  return result;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->polls > 0)
    violation("use of a communicator before its last call is complete", "ncclCommDestroy");
  close(comm, "ncclCommDestroy");
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  close(comm, "ncclCommAbort");
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** data, std::size_t bytes) {
  return cudaMalloc(data, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* data) {
  return cudaFree(data) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* data, std::size_t bytes,
                                    ncclWindow_t* window, int) {
  *window = reinterpret_cast<ncclWindow_t>(add_registration(comm, data, bytes));
  return begin_call(comm, "ncclCommWindowRegister");
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return deregister(comm, window, "ncclCommWindowDeregister");
}
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* data, std::size_t bytes, void** handle) {
  *handle = add_registration(comm, data, bytes);
  return begin_call(comm, "ncclCommRegister");
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return deregister(comm, handle, "ncclCommDeregister");
}

}  // extern "C"
