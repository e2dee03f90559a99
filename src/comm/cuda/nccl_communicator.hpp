#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/data_type.hpp"
#include "nccl_calls.hpp"

namespace lockstep::comm {

struct NcclOptions {
  const char* name = "lockstep";                ///< of the communicator in NCCL's log; a literal
  std::chrono::milliseconds deadline{120'000};  ///< of whatever all ranks take part in
};

/// The ranks' GPUs, which sum what lies in their memory. Nothing here blocks without a limit: NCCL
/// itself is told never to block the host, and its state is asked for until it has settled. Where
/// something fails or the deadline passes, the communicator is aborted, so that the device stops
/// waiting for the other ranks, and `Error` (internal) says which rank and why; nothing can be
/// summed from then on.
class NcclCommunicator {
 public:
  /// `control` connects the same ranks and outlives this. Collective.
  NcclCommunicator(Communicator& control, NcclCalls& calls, const NcclOptions& options);
  /// Waits, to the deadline, until all ranks are through; aborts where an error unwinds. Recordings
  /// of its work must be gone. Collective.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Lets NCCL sum in `memory` (of ncclMemAlloc) without copies of its own, where that can be had;
  /// a failure costs speed only. Before anything has been recorded; once. Collective.
  void register_memory(std::span<std::byte> memory);

  /// Queues the sum over the ranks, in place. Collective.
  void sum(void* data, std::size_t elements, core::DataType type, cudaStream_t stream);

  /// Waits, to the deadline, until the device has done what is in `stream`.
  void finish(cudaStream_t stream);

  /// Throws where communication has failed.
  void check();

  void abort() noexcept;

 private:
  void open();
  void try_register(std::span<std::byte> memory);
  void deregister();
  /// Waits until NCCL is through with what `result` was returned for.
  void settle(ncclResult_t result, std::string_view what);
  void require_open() const;
  [[noreturn]] void fail(ncclResult_t result, std::string_view what);
  [[noreturn]] void fail_late(std::string_view what);
  [[noreturn]] void give_up(const std::string& failure);

  Communicator& control_;
  NcclCalls& calls_;
  const NcclOptions options_;
  ncclComm_t comm_ = nullptr;      ///< null once it has been aborted
  ncclWindow_t window_ = nullptr;  ///< of registered memory
  void* registration_ = nullptr;   ///< of memory that could not become a window
  std::string failure_;            ///< why it was aborted
};

}  // namespace lockstep::comm
