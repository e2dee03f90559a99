// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>

#include "device.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/data_type.hpp"

namespace lockstep::backend::cuda {

/// Returns the seconds between two events that have completed. CUDA returns milliseconds in
/// float32 with a resolution of about 0.5 us (documentation of cudaEventElapsedTime).
double seconds_between(const core::Event& begin, const core::Event& end);

/// Times work on the GPU under the cache conditions of a training step. If the tensors fit in the
/// L2 cache, the kernel before has left them there, and the work is repeated; otherwise the cache
/// is overwritten with other data before each run. Requires a GPU. The constructor allocates the
/// buffer for this and throws `Error` (out_of_memory) if the memory does not suffice.
class KernelStopwatch {
 public:
  explicit KernelStopwatch(const Target& target);

  /// Returns whether the GPU has free memory for a stopwatch and `bytes` more, without an
  /// allocation.
  static bool fits(const Target& target, std::size_t bytes);

  /// Returns the median execution time of several runs in seconds, or infinity if `enqueue` returns
  /// false. `enqueue` enqueues the work on the target's stream; its tensors have `tensor_bytes`.
  double seconds(std::size_t tensor_bytes, const std::function<bool()>& enqueue) const;

 private:
  const Target& target_;
  core::Buffer flush_;
};

/// Returns device memory filled with random numbers of the data type: magnitudes in [1/4, 1], both
/// signs. There are no zeros, which hardware may process faster, and results do not overflow if the
/// factors of products have different `stream`s: buffers of one stream are equal. The numbers
/// repeat with a prime period, so that they differ between the images of a map.
core::Buffer random_buffer(std::size_t bytes, core::DataType type, std::size_t stream = 0);

}  // namespace lockstep::backend::cuda
