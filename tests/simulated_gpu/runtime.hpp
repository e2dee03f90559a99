#pragma once

#include <cuda_runtime_api.h>

#include <functional>

// A simulated GPU on the host, for testing the CUDA backend without a GPU, except for cuDNN and the
// machine code of the kernels. `runtime.cpp` replaces the CUDA runtime, `operation_graph.cpp`
// replaces cuDNN, `device.cpp` replaces the device query, and `launch.cuh` replaces kernel
// launches.
//
// Work in a stream is executed as late as possible: when the host waits for the device, for the
// stream or for a later event in it, when it queries the stream or the event, when the execution of
// another stream has to wait for such an event, or when memory, the stream or an event is freed. A
// missing synchronisation therefore leads to wrong results. All bytes of allocated memory are 0xff,
// which is NaN in every floating-point type.

namespace lockstep::simulated_gpu {

/// Enqueues `work` on `stream`, or records it if the stream is being captured. On the default
/// stream, executes it immediately.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// Returns the number of executable graphs that were instantiated and not yet destroyed.
int count_executable_graphs();

/// Sets whether the simulated cuDNN supports batch norm as a single node, as cuDNN does on GPUs
/// from Ampere on. The initial value is true.
void set_one_node_batch_norm(bool is_there);

}  // namespace lockstep::simulated_gpu
