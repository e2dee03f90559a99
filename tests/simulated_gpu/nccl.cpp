// SPDX-License-Identifier: BSD-3-Clause
// Replaces NCCL: communicators that connect MPI ranks, for the simulated GPUs of these ranks. All
// communicators are non-blocking: a call is complete, and its work is in the stream, only after
// several queries of the state.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "nccl_state.hpp"
#include "state.hpp"

namespace lockstep::simulated_gpu {

namespace {

constexpr int polls_per_call = 2;
int nccl_version = NCCL_VERSION_CODE;

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

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// The content of an ncclUniqueId.
struct GroupId {
  char name[10] = "simulated";
  int root;  ///< rank in MPI_COMM_WORLD of the process that made the id
  int tag;   ///< of the messages that connect the group
};

/// Returns a communicator of the processes that call this function with the same id. They need not
/// be all processes. The root sends them the ranks of the group in MPI_COMM_WORLD.
MPI_Comm connect(const GroupId& id, int ranks, int rank) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  const std::array<int, 2> mine{rank, world_rank()};
  if (mine[1] == id.root) {
    members[static_cast<std::size_t>(rank)] = id.root;
    for (int other = 1; other < ranks; ++other) {
      std::array<int, 2> theirs{};
      MPI_Recv(theirs.data(), 2, MPI_INT, MPI_ANY_SOURCE, id.tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      members.at(static_cast<std::size_t>(theirs[0])) = theirs[1];
    }
    for (const int member : members)
      if (member != id.root)
        MPI_Send(members.data(), ranks, MPI_INT, member, id.tag, MPI_COMM_WORLD);
  } else {
    MPI_Send(mine.data(), 2, MPI_INT, id.root, id.tag, MPI_COMM_WORLD);
    MPI_Recv(members.data(), ranks, MPI_INT, id.root, id.tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, ranks, members.data(), &group);
  MPI_Comm mpi = MPI_COMM_NULL;
  MPI_Comm_create_group(MPI_COMM_WORLD, group, id.tag, &mpi);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return mpi;
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

ncclResult_t deregister(ncclComm_t comm, const void* handle, const char* call) {
  require_registered(*comm, handle, call);
  std::erase_if(comm->registrations, [&](const auto& one) { return one.get() == handle; });
  return begin_call(comm, call);
}

/// Returns the handle of the new registration. Collective, like the registration of a window.
NcclRegistration* add_registration(ncclComm_t comm, void* data, std::size_t bytes) {
  enqueue(cudaStreamLegacy, {.run = [] {}, .reads = {{data, bytes}}});
  comm->registrations.push_back(
      std::make_unique<NcclRegistration>(NcclRegistration{static_cast<std::byte*>(data), bytes}));
  return comm->registrations.back().get();
}

}  // namespace

void set_nccl_version(int version) { nccl_version = version == 0 ? NCCL_VERSION_CODE : version; }

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
  *version = nccl_version;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  constexpr int first_tag = 20000;  // the program uses smaller tags, on other communicators
  const GroupId group{.root = world_rank(), .tag = first_tag + made++ % 10000};
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &group, sizeof group);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  require_no_capture("ncclCommInitRankConfig");
  GroupId group{};
  std::memcpy(&group, id.internal, sizeof group);
  if (std::strcmp(group.name, GroupId{}.name) != 0 || config->blocking != 0)
    violation("arguments of ncclCommInitRankConfig", "id or configuration");
  *comm = make_comm(connect(group, ranks, rank));
  const NcclState& state = *(*comm)->state;
  if (state.size != ranks || state.rank != rank)
    violation("arguments of ncclCommInitRankConfig", "ranks");
  const bool fails = allocation_fails();
  if (fails) (*comm)->last_error = "Cuda failure 'out of memory'";
  return begin_call(*comm, "ncclCommInitRankConfig", fails ? ncclUnhandledCudaError : ncclSuccess);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (comm->polls > 0 && --comm->polls == 0 && comm->pending) std::exchange(comm->pending, {})();
  *result = comm->polls > 0 ? ncclInProgress : is_stopped() ? ncclRemoteError : comm->result;
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
  require_no_graph(comm, "ncclCommDestroy");
  comm->state->is_aborted = true;
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->state->is_aborted = true;
  comm->pending = {};
  if (!wait_until([comm] { return comm->graphs.use_count() == 1; }))
    violation("abort of a communicator", "graphs that use it were not destroyed");
  delete comm;
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
