#pragma once

#include <functional>

#include "device.hpp"
#include "lockstep/core/cuda.hpp"
#include "lockstep/core/data_type.hpp"

namespace lockstep::backend::cuda {

/// Times work on a GPU that is present as it will run in a training step: with caches full of
/// something else. Takes memory to fill them in the constructor, which throws `Error`
/// (out_of_memory) where it does not fit.
class ColdStopwatch {
 public:
  explicit ColdStopwatch(const Target& target);

  /// Median seconds of several runs; infinity where `enqueue`, which queues the work on the
  /// target's stream, returns false.
  double seconds(const std::function<bool()>& enqueue) const;

 private:
  const Target& target_;
  core::Buffer flush_;
};

/// Buffers of the target's memory, filled with random numbers of the type: magnitudes in [1/4, 1),
/// both signs. No zeros that hardware could make cheaper, nothing that overflows.
core::Buffer random_buffer(std::size_t bytes, core::DataType type);

}  // namespace lockstep::backend::cuda
