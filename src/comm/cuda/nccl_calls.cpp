// SPDX-License-Identifier: BSD-3-Clause
#include "nccl_calls.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

namespace {

ncclConfig_t non_blocking(const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = name;
  return config;
}

}  // namespace

ncclResult_t NcclCalls::make_id(ncclUniqueId& id) { return ncclGetUniqueId(&id); }

ncclResult_t NcclCalls::open(ncclComm_t& comm, int ranks, const ncclUniqueId& id, int rank,
                             const char* name) {
  ncclConfig_t config = non_blocking(name);
  return ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
}

ncclResult_t NcclCalls::state(ncclComm_t comm, ncclResult_t& state) {
  return ncclCommGetAsyncError(comm, &state);
}

std::string NcclCalls::last_error(ncclComm_t comm) {
  const char* const text = ncclGetLastError(comm);
  return text == nullptr ? "" : text;
}

ncclResult_t NcclCalls::sum(void* data, std::size_t elements, ncclDataType_t type, ncclComm_t comm,
                            cudaStream_t stream) {
  return ncclAllReduce(data, data, elements, type, ncclSum, comm, stream);
}

ncclResult_t NcclCalls::reduce(void* data, std::size_t elements, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream) {
  return ncclReduce(data, data, elements, type, ncclSum, root, comm, stream);
}

ncclResult_t NcclCalls::broadcast(void* data, std::size_t elements, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(data, data, elements, type, root, comm, stream);
}

cudaError_t NcclCalls::query(cudaStream_t stream) { return cudaStreamQuery(stream); }

ncclResult_t NcclCalls::register_window(ncclComm_t comm, std::span<std::byte> memory,
                                        ncclWindow_t& window) {
  return ncclCommWindowRegister(comm, memory.data(), memory.size(), &window,
                                NCCL_WIN_COLL_SYMMETRIC);
}

ncclResult_t NcclCalls::deregister_window(ncclComm_t comm, ncclWindow_t window) {
  return ncclCommWindowDeregister(comm, window);
}

ncclResult_t NcclCalls::register_buffer(ncclComm_t comm, std::span<std::byte> memory,
                                        void*& handle) {
  return ncclCommRegister(comm, memory.data(), memory.size(), &handle);
}

ncclResult_t NcclCalls::deregister_buffer(ncclComm_t comm, void* handle) {
  return ncclCommDeregister(comm, handle);
}

ncclResult_t NcclCalls::finalize(ncclComm_t comm) { return ncclCommFinalize(comm); }
ncclResult_t NcclCalls::destroy(ncclComm_t comm) { return ncclCommDestroy(comm); }
ncclResult_t NcclCalls::abort(ncclComm_t comm) { return ncclCommAbort(comm); }

void check_nccl(ncclResult_t status, std::string_view call) {
  if (status == ncclSuccess) return;
  core::fail(core::ExitStatus::internal,
             fmt::format("{} failed ({}); NCCL_DEBUG=INFO in the environment says more", call,
                         ncclGetErrorString(status)));
}

std::string nccl_library_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

ncclDataType_t nccl_type(core::DataType type) {
  switch (type) {
    case core::DataType::float32: return ncclFloat32;
    case core::DataType::bfloat16: return ncclBfloat16;
    case core::DataType::float16: return ncclFloat16;
  }
  core::check(false, "unknown data type");
  return ncclFloat32;
}

}  // namespace lockstep::comm
