#pragma once

#include <cuda_runtime_api.h>

#include <functional>

// A GPU played by the host, for tests of everything around the kernels: `runtime.cpp` takes the
// place of the CUDA runtime, `operation_graph.cpp` that of cuDNN, `launch.cuh` that of the kernels'
// launches. It does nothing early: work that is queued on a stream is done when somebody waits for
// it, or for an event behind it, and not before, so a wait that is missing shows as a wrong number.
// Memory comes poisoned.

namespace lockstep::simulated_gpu {

/// Queues work on a stream, or records it where the stream is being captured.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// Whether there are kernels for a whole batch norm, as from Ampere on.
void set_one_node_batch_norm(bool is_there);

}  // namespace lockstep::simulated_gpu
