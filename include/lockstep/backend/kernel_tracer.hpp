#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::backend {

/// One execution of a kernel on a GPU.
struct KernelRecord {
  std::string name;  ///< demangled
  double begin = 0;  ///< seconds on the steady clock of the host
  double end = 0;
  std::uint32_t stream = 0;
  std::int64_t blocks = 0;         ///< thread blocks of the grid
  int threads = 0;                 ///< threads per block
  int registers = 0;               ///< per thread
  std::int64_t shared_memory = 0;  ///< bytes per block, static and dynamic
  /// Theoretical occupancy: warps that can be resident on a multiprocessor, divided by the maximum.
  double occupancy = 0;
};

/// Records the kernels that this process executes on a GPU, including those of CUDA graphs that are
/// instantiated after the construction. A new tracer records.
class KernelTracer {
 public:
  virtual ~KernelTracer() = default;
  KernelTracer() = default;
  KernelTracer(const KernelTracer&) = delete;
  KernelTracer& operator=(const KernelTracer&) = delete;

  /// Start and stop the recording. No work may be in progress on the device. Throw `Error`
  /// (internal) if the library fails.
  virtual void start() = 0;
  virtual void stop() = 0;

  /// Returns the kernels that were recorded since the last call, in the order of their starts.
  virtual std::vector<KernelRecord> take() = 0;
};

}  // namespace lockstep::backend
