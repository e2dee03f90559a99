// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// A simulated GPU on the host, for testing the CUDA backend without a GPU, except for the machine
// code of the kernels. `memory.cpp`, `streams.cpp`, `events.cpp`, `graphs.cpp` and `device.cpp`
// replace the CUDA runtime and the device query, the files `dnn_*.cpp` replace cuDNN, and
// `launch.cuh` replaces kernel launches. README.md lists the contracts that the simulation checks.
//
// Work in a stream is executed as late as possible: when the host waits for the device, for the
// stream or for a later event in it, when it queries the stream or the event, when the execution of
// another stream has to wait for such an event, or when memory or the stream is freed. The nodes of
// a captured graph are executed as late as the captured dependencies allow, or early if a test asks
// for it. A missing synchronisation therefore leads to wrong results. All bytes of allocated memory
// are 0xff, which is NaN in every floating-point type.

namespace lockstep::simulated_gpu {

enum class WorkKind {
  kernel,
  dnn,  ///< the execution of a cuDNN graph
  memset,
  copy_to_device,
  copy_to_host,
  copy_on_device,
  event_record,
  collective,  ///< of NCCL
  other        ///< not counted: the wait for an event, the launch of a graph
};

/// Memory that a task uses.
struct Access {
  const void* data;
  std::size_t bytes;
  enum class In { device, page_locked_host, any_host } in = In::device;
};

struct EventState;

/// An item of work in a stream.
struct Task {
  WorkKind kind = WorkKind::other;
  std::function<void()> run = {};
  std::size_t bytes = 0;                        ///< of a copy
  std::vector<Access> reads = {}, writes = {};  ///< must be allocated memory
  std::shared_ptr<const void> owner = {};       ///< what a graph refers to if it contains the task
  std::shared_ptr<EventState> event = {};       ///< that the task records; null if it records none
  /// The graph that the task executes; null if it executes none.
  std::shared_ptr<const CUgraph_st> graph = {};
};

/// Enqueues `task` on `stream`, or records it if the stream is being captured. On the default
/// stream, executes it immediately.
void enqueue(cudaStream_t stream, Task task);

/// Numbers of items of work, by kind.
struct WorkCounters {
  std::int64_t kernel_launches = 0;
  std::int64_t dnn_executions = 0;
  std::int64_t memsets = 0;
  std::int64_t copies_to_device = 0, copies_to_host = 0, copies_on_device = 0;
  std::int64_t bytes_to_device = 0, bytes_to_host = 0, bytes_on_device = 0;
  std::int64_t event_records = 0;
  std::int64_t collectives = 0;

  friend bool operator==(const WorkCounters&, const WorkCounters&) = default;
};

/// What the program has asked of the simulated GPU since the last `reset_counters`. Work counts
/// when it is enqueued. Work that is recorded into a graph counts in `in_graphs`, once for every
/// launch of the graph, and not when it is recorded.
struct Counters {
  WorkCounters issued;     ///< enqueued by the host, outside graphs
  WorkCounters in_graphs;  ///< contained in the launched graphs
  std::int64_t graph_launches = 0;
  std::int64_t allocations = 0;  ///< of device memory and of page-locked host memory
  /// Waits of the host: synchronisations of the device, a stream or an event, blocking copies, and
  /// queries of a stream or an event that returned cudaSuccess (a polling loop counts once).
  std::int64_t host_waits = 0;
};

Counters counters();
void reset_counters();

/// Adds the allocations to which 8-byte words of the arguments of a kernel point to `task`.
void add_pointers(std::span<const std::byte> arguments, Task& task);

/// Adds the allocations to which the members of `kernel` point to `task`. The padding is cleared
/// first: together with a float before it, it could have the value of an address.
template <class Kernel>
void add_arguments(Kernel kernel, Task& task) {
  __builtin_clear_padding(&kernel);
  add_pointers(std::as_bytes(std::span(&kernel, 1)), task);
}

/// Number of blocks and of threads per block in three dimensions, and bytes of shared memory.
struct Launch {
  std::array<std::int64_t, 3> blocks = {1, 1, 1}, threads = {1, 1, 1};
  std::size_t shared_bytes = 0;
};
/// Reports a violation if the launch exceeds a limit of all supported GPUs.
void require_launchable(const Launch& launch);

/// Machine code that is loaded when it is first used, which allocates device memory.
class Module {
 public:
  /// Loads the module unless it is loaded. Returns false if the memory does not suffice;
  /// cudaGetLastError then returns the error. `what`: the code, for messages.
  bool load(const char* what);

 private:
  int loaded_for_ = 0;
};
/// Unloads all modules, as in a new process.
void unload_modules();

/// Lets one of the following requests for memory fail as if the memory were full, and resets their
/// number. Requests are the allocations of device and page-locked memory, the creation of streams,
/// events and cuDNN handles, the instantiation of graphs, and the first use of every kernel and of
/// every cuDNN graph. `number`: of the request, from 1; 0 lets none fail.
void fail_allocation(std::int64_t number);
/// Returns the number of requests since the last `fail_allocation`.
std::int64_t allocation_requests();
/// Counts a request for memory; returns whether it fails.
bool allocation_fails();

/// Lets a collective of NCCL that follows in a launched graph fail: the GPU stops in it until the
/// communicator is aborted, and NCCL reports an error. `number`: of the collective, from 1.
void fail_collective_of_graph(std::int64_t number);

/// Lets one of the following calls of cudaStreamWaitEvent do nothing, as if the program lacked it,
/// and resets their number. `number`: of the call, from 1; 0 lets all take effect.
void ignore_wait(std::int64_t number);
/// Returns the number of calls of cudaStreamWaitEvent since the last `ignore_wait`.
std::int64_t waits();

/// When the nodes of a graph that were captured on another stream than the first are executed:
/// `late`, the initial value, when a node of the first stream depends on them, or `early`, as soon
/// as their dependencies allow.
enum class ForkOrder { late, early };
void set_fork_order(ForkOrder order);

/// Objects of the simulated GPU that exist.
struct Objects {
  std::size_t device_allocations = 0, page_locked_allocations = 0;
  std::size_t streams = 0, events = 0, graphs = 0, executable_graphs = 0;

  friend bool operator==(const Objects&, const Objects&) = default;
};
Objects count_objects();

/// Reports that the program violates a contract of CUDA, cuDNN or NCCL. `rule`: the contract as in
/// README.md. Writes the message to stderr and aborts the process, so that neither a C function nor
/// a destructor can ignore it.
void violation(std::string_view rule, const std::string& detail);

/// Reports a violation if a stream capture is open: `call` is not allowed then.
void require_no_capture(const char* call);

/// Runs `work`, whose violations do not abort the process; returns their messages.
std::vector<std::string> record_violations(const std::function<void()>& work);

/// Sets the number of the GPU that this process opens next, at first 0. Ranks with equal numbers
/// share a GPU.
void set_gpu(int number);

/// Sets the version of NCCL, as ncclGetVersion returns it; 0: that of its header, the default.
void set_nccl_version(int version);

/// Sets the free memory of the GPU in bytes. A larger allocation fails. The initial value is 8 GiB;
/// memory that is allocated does not reduce it.
void set_free_memory(std::size_t bytes);
/// Returns the number of allocations that failed.
int count_failed_allocations();

}  // namespace lockstep::simulated_gpu
