// SPDX-License-Identifier: BSD-3-Clause
// Replaces the collectives of NCCL. They are executed when the simulated GPU reaches them in its
// stream, and block until the other ranks reach them too.

#include <fmt/format.h>

#include <array>

#include "comm/elements.hpp"
#include "nccl_state.hpp"
#include "state.hpp"

namespace lockstep::simulated_gpu {

namespace {

using Header = std::array<std::int64_t, 5>;

/// One operation of a communicator, as all its ranks must call it.
struct NcclOperation {
  enum class Kind : std::int64_t { sum, broadcast, reduce } kind;
  std::int64_t elements;
  ncclDataType_t type;
  std::int64_t root;  ///< 0 for a sum
};

std::int64_t failing = 0;  // collectives of graphs until one fails; 0: none fails

core::DataType type_of(ncclDataType_t type) {
  switch (type) {
    case ncclBfloat16: return core::DataType::bfloat16;
    case ncclFloat16: return core::DataType::float16;
    default: return core::DataType::float32;
  }
}

std::size_t bytes_of(const NcclOperation& operation) {
  return static_cast<std::size_t>(operation.elements) * core::size_of(type_of(operation.type));
}

std::string describe(const Header& header) {
  return fmt::format("operation {} of {} elements of type {} and root {} on communicator {}",
                     header[1], header[2], header[3], header[4], header[0]);
}

/// Returns whether all ranks have reached an operation within the timeout.
bool wait_for(MPI_Request request) {
  return wait_until([&] {
    int is_done = 0;
    MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    return is_done != 0;
  });
}

/// Reports a violation unless all ranks execute the same operation.
bool agree(const NcclState& state, const Header& mine) {
  constexpr std::string_view rule = "order of collectives";
  std::vector<Header> all(static_cast<std::size_t>(state.size));
  MPI_Request request = MPI_REQUEST_NULL;
  constexpr int length = std::tuple_size_v<Header>;
  MPI_Iallgather(mine.data(), length, MPI_INT64_T, all.data(), length, MPI_INT64_T, state.mpi,
                 &request);
  if (!wait_for(request)) {
    violation(rule,
              fmt::format("rank {} waits for the other ranks in {}", state.rank, describe(mine)));
    return false;
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == mine) continue;
    violation(rule, fmt::format("rank {} executes {}, rank {} {}", state.rank, describe(mine), rank,
                                describe(all[rank])));
    return false;
  }
  return true;
}

/// Sum, broadcast or reduction, in place, of the data of all ranks. Reports a violation if the
/// ranks execute different operations.
void execute(const std::shared_ptr<NcclState>& shared, const NcclOperation& operation,
             std::byte* data) {
  const NcclState& state = *shared;
  if (state.is_aborted) return;
  if (current_launch() != 0 && failing > 0 && --failing == 0)
    set_stopped([shared] { return !shared->is_aborted; });
  if (is_stopped()) return;
  if (!agree(state, {state.id, static_cast<std::int64_t>(operation.kind), operation.elements,
                     static_cast<std::int64_t>(operation.type), operation.root}))
    return;
  if (operation.kind == NcclOperation::Kind::broadcast) {
    MPI_Bcast(data, static_cast<int>(bytes_of(operation)), MPI_BYTE,
              static_cast<int>(operation.root), state.mpi);
    return;
  }
  std::vector<float> values(static_cast<std::size_t>(operation.elements));
  comm::load_floats(data, type_of(operation.type), values);
  if (operation.kind == NcclOperation::Kind::reduce) {
    const bool is_root = state.rank == operation.root;
    MPI_Reduce(is_root ? MPI_IN_PLACE : values.data(), values.data(),
               static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
               static_cast<int>(operation.root), state.mpi);
    if (is_root) comm::store_floats(values, type_of(operation.type), data);
    return;
  }
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                state.mpi);
  comm::store_floats(values, type_of(operation.type), data);
}

ncclResult_t begin(ncclComm_t comm, const char* call, const NcclOperation& operation, void* data,
                   cudaStream_t stream) {
  const std::size_t bytes = bytes_of(operation);
  Task task{.kind = WorkKind::collective,
            .run = [state = comm->state, operation,
                    data] { execute(state, operation, static_cast<std::byte*>(data)); },
            .bytes = bytes,
            .reads = {{data, bytes}},
            .writes = {{data, bytes}},
            .owner = comm->graphs};
  return begin_call(comm, call, ncclSuccess,
                    [stream, task = std::move(task)] { enqueue(stream, task); });
}

}  // namespace

void fail_collective_of_graph(std::int64_t number) { failing = number; }

}  // namespace lockstep::simulated_gpu

using namespace lockstep::simulated_gpu;

extern "C" {

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t elements, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (from != to || operation != ncclSum)
    violation("arguments of ncclAllReduce", "the simulation sums in place only");
  return begin(comm, "ncclAllReduce",
               {NcclOperation::Kind::sum, static_cast<std::int64_t>(elements), type, 0}, to,
               stream);
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t elements, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t comm, cudaStream_t stream) {
  if (from != to || operation != ncclSum)
    violation("arguments of ncclReduce", "the simulation sums in place only");
  return begin(comm, "ncclReduce",
               {NcclOperation::Kind::reduce, static_cast<std::int64_t>(elements), type, root}, to,
               stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t elements, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  if (from != to) violation("arguments of ncclBroadcast", "the simulation copies in place only");
  return begin(comm, "ncclBroadcast",
               {NcclOperation::Kind::broadcast, static_cast<std::int64_t>(elements), type, root},
               to, stream);
}

}  // extern "C"
