// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "lockstep/backend/backend.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {
struct Pipeline;
}

namespace lockstep::study {

/// Estimated memory of one rank in bytes, by purpose. If the device uses host memory, `total()` is
/// the estimated peak of the resident memory of rank 0, which needs the most. If the device has
/// memory of its own, `plans()` is device memory.
struct MemoryEstimate {
  std::uint64_t process = 0;      ///< program, libraries and their own memory
  std::uint64_t data = 0;         ///< the images
  std::uint64_t loader = 0;       ///< prefetched batches
  std::uint64_t state = 0;        ///< parameters, gradients, momentum, running statistics
  std::uint64_t activations = 0;  ///< feature maps and their gradients
  std::uint64_t weights = 0;      ///< weights and their gradients in the device's own layouts
  std::uint64_t workspace = 0;    ///< of the operations; also all images if they are on the device
  std::uint64_t evaluation = 0;   ///< the inference plan
  std::uint64_t checkpoint = 0;   ///< copy of the state that a checkpoint is written from
  std::uint64_t communication = 0;  ///< buffers of the gradient transport
  std::uint64_t records = 0;  ///< durations of the steps of an epoch, and their copies on rank 0
  bool has_device = false;    ///< whether the device has memory of its own

  std::uint64_t plans() const { return state + activations + weights + workspace + evaluation; }
  std::uint64_t total() const {
    return process + data + loader + plans() + checkpoint + communication + records;
  }
  /// Returns the bytes that are compared with the memory limit: only the device memory if the
  /// device has memory of its own.
  std::uint64_t limited() const { return has_device ? plans() : total(); }
};

/// Number of ranks: of the run, and of this host.
struct Ranks {
  int all = 1, local = 1;
};

enum class MemoryDetail {
  planned,  ///< with the implementations that are chosen, which may time them on the device
  least,    ///< a lower bound from the shapes; times nothing on the device
};

/// Estimates the memory of one rank. `config` must be resolved. `graph`: of this rank. `ranks`:
/// with a pipeline, the replicas. `pipeline` may be null. `process_bytes`: resident memory of the
/// process at its start, in bytes.
MemoryEstimate estimate_memory(const train::Config& config, const graph::Graph& graph,
                               const backend::Backend& backend, const data::DataSizes& sizes,
                               Ranks ranks, std::uint64_t process_bytes,
                               MemoryDetail detail = MemoryDetail::planned,
                               const train::Pipeline* pipeline = nullptr);

}  // namespace lockstep::study
