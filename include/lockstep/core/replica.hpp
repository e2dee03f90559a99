// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/core/data_type.hpp"

namespace lockstep::core {

/// In-order work queue of a device: a CUDA stream, or no stream if the device is the host.
struct DeviceQueue {
  int device = -1;         ///< CUDA device index; -1 for the host
  void* stream = nullptr;  ///< a cudaStream_t; null for the host
  std::string uuid{};      ///< of the GPU, or of the part of one (MIG); empty for the host

  bool is_host() const { return device < 0; }
};

/// Non-owning view of the flat gradient buffer in the memory of the device (host memory on CPUs).
struct GradientArray {
  std::byte* data = nullptr;
  std::size_t elements = 0;
  DataType type = DataType::float32;
};

/// Callback interface through which a plan reports the progress of its backward pass. The trainer
/// connects it to the gradient reducer, so a plan does not depend on communication.
class GradientListener {
 public:
  virtual ~GradientListener() = default;

  /// Reports that the first `elements` values of the flat gradient buffer are final. Called after
  /// every operation of the backward pass; `elements` never decreases. Implementations may also use
  /// the call to progress communication.
  virtual void gradients_ready(std::size_t elements) = 0;
};

/// Ignores the progress, for backward passes whose gradients are not communicated.
class NoGradientListener final : public GradientListener {
 public:
  void gradients_ready(std::size_t) override {}
};

/// All-reduce of the statistics of synchronised batch norm.
class StatisticsAllReduce {
 public:
  virtual ~StatisticsAllReduce() = default;
  /// Returns the number of replicas.
  virtual int replicas() const = 0;
  /// Sums `values` over all replicas, in place. Collective: all replicas must call this in the same
  /// order, with the same number of values.
  virtual void sum(std::span<float> values) = 0;
  /// Called repeatedly while the host waits for the device; throws if communication has failed.
  virtual void throw_if_failed() {}
};

}  // namespace lockstep::core
