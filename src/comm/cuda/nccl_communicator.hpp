// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

class NcclCommunicator;

/// Communicators that are aborted together: one CUDA graph may contain work of several of them.
struct NcclGroup {
  std::vector<NcclCommunicator*> communicators;
};

struct NcclOptions {
  const char* name = "lockstep";  ///< name of the communicator in the log of NCCL; a string literal
  std::chrono::milliseconds deadline{120'000};  ///< timeout of each collective operation
};

/// A communicator of the GPUs of all ranks, based on NCCL. Every wait has a timeout: the NCCL
/// communicator is non-blocking, and its state is polled until the operation is complete. If an
/// operation fails or exceeds `NcclOptions::deadline`, all communicators of the same `NcclGroup`
/// are aborted, so that the device stops waiting for the other ranks, and `Error` (internal) is
/// thrown with the rank and the reason; no further all-reduces are possible.
class NcclCommunicator {
 public:
  /// `control` must connect the same ranks and outlive this object, and so must `group`.
  /// Collective: all ranks must call this.
  NcclCommunicator(Communicator& control, NcclGroup& group, const NcclOptions& options);
  /// Waits until all ranks have completed their operations, at most until the deadline; aborts the
  /// communicator if an exception propagates. CUDA graphs that captured its work must be destroyed
  /// before: NCCL waits for them, also after an abort. Collective: all ranks must call this.
  ~NcclCommunicator();

  /// Registers `memory` (from ncclMemAlloc), so that NCCL can reduce it without internal copies, if
  /// the GPUs support that. If the registration fails, all ranks continue without it, which is
  /// slower. Must be called at most once, and before any work is captured in a CUDA graph.
  /// Collective: all ranks must call this.
  void register_memory(std::span<std::byte> memory);
  /// Returns how the memory is registered: "window", "buffer" (without symmetric memory) or "none".
  std::string_view registration() const;

  /// Enqueue an operation on `elements` values at `data` on `stream`: their sum over the ranks on
  /// all ranks, their sum on rank 0 only, or the copy of rank 0's values to all ranks. Throw
  /// `Error` (internal) if communication has failed. Collective: all ranks must call this.
  void sum(void* data, std::size_t elements, core::DataType type, cudaStream_t stream);
  void reduce(void* data, std::size_t elements, core::DataType type, cudaStream_t stream);
  void broadcast(void* data, std::size_t elements, core::DataType type, cudaStream_t stream);

  /// Blocks until the work in `stream` is complete, at most until the deadline. Throws `Error`
  /// (internal) if communication fails or the deadline passes.
  void finish(cudaStream_t stream);

  /// Throws `Error` (internal) if communication has failed.
  void throw_if_failed();

  /// Begins to abort the communicator: enqueued operations end without a result, and no further
  /// ones are possible. The abort ends after the CUDA graphs that captured its work are destroyed.
  void abort() noexcept;

 private:
  void open();
  void try_register(std::span<std::byte> memory);
  void deregister();
  /// Waits until NCCL has completed the call that returned `result`; the memory to which the call
  /// writes must stay valid until then. `what`: the operation, for messages.
  void settle(ncclResult_t result, std::string_view what);
  ncclResult_t query_state() const;
  void require_open() const;
  [[noreturn]] void fail(ncclResult_t result, std::string_view what);
  [[noreturn]] void fail_late(std::string_view what);
  [[noreturn]] void give_up(const std::string& failure,
                            core::ExitStatus status = core::ExitStatus::internal);

  Communicator& control_;
  NcclGroup& group_;
  const NcclOptions options_;
  ncclComm_t comm_ = nullptr;      ///< null after an abort
  ncclWindow_t window_ = nullptr;  ///< window of registered memory
  void* registration_ = nullptr;   ///< registration of memory that could not become a window
  bool is_registering_ = false;    ///< its failure ends no other communicator
  std::string failure_;            ///< reason for the abort
  std::jthread abort_;  ///< runs ncclCommAbort; joined by the next abort and the destructor
};

/// Returns zeroed memory that NCCL can register; an empty buffer if NCCL cannot allocate it.
core::Buffer registrable_memory(std::size_t bytes);

/// Returns the version of the NCCL library in use, for example "NCCL 2.28.9".
std::string nccl_library_version();

}  // namespace lockstep::comm
