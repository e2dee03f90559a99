#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

// A simulated GPU on the host, for testing the CUDA backend without a GPU, except for cuDNN and the
// machine code of the kernels. `memory.cpp`, `streams.cpp`, `events.cpp`, `graphs.cpp` and
// `device.cpp` replace the CUDA runtime and the device query, `operation_graph.cpp` replaces cuDNN,
// and `launch.cuh` replaces kernel launches.
//
// Work in a stream is executed as late as possible: when the host waits for the device, for the
// stream or for a later event in it, when it queries the stream or the event, when the execution of
// another stream has to wait for such an event, or when memory or the stream is freed. The nodes of
// a captured graph are executed as late as the captured dependencies allow. A missing
// synchronisation therefore leads to wrong results. All bytes of allocated memory are 0xff, which
// is NaN in every floating-point type.

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

/// An item of work in a stream.
struct Task {
  WorkKind kind = WorkKind::other;
  std::function<void()> run;
  std::size_t bytes = 0;  ///< of a copy
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

/// Returns the number of executable graphs that were instantiated and not yet destroyed.
int count_executable_graphs();

/// Sets whether the simulated cuDNN supports batch norm as a single node, as cuDNN does on GPUs
/// from Ampere on. The initial value is true.
void set_one_node_batch_norm(bool is_there);

}  // namespace lockstep::simulated_gpu
