#pragma once

#include <cstdint>

#include "lockstep/backend/backend.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/graph.hpp"
#include "lockstep/train/config.hpp"

namespace lockstep::train {

/// Estimated memory of one rank in bytes, by purpose. If the device uses host memory, the total is
/// the estimated peak of the resident memory of rank 0, which takes the most; if the device has
/// memory of its own, the memory of the plans is there.
struct MemoryEstimate {
  std::uint64_t process = 0;        ///< program, libraries and their own memory
  std::uint64_t data = 0;           ///< the images
  std::uint64_t loader = 0;         ///< batches prepared ahead
  std::uint64_t state = 0;          ///< parameters, gradients, momentum, running statistics
  std::uint64_t activations = 0;    ///< feature maps and their gradients
  std::uint64_t weights = 0;        ///< copies in the device's layouts
  std::uint64_t workspace = 0;      ///< scratch of the operations
  std::uint64_t evaluation = 0;     ///< the inference plan
  std::uint64_t checkpoint = 0;     ///< a tensor on its way to or from a file
  std::uint64_t communication = 0;  ///< buffers of the gradient transport
  std::uint64_t records = 0;        ///< times of an epoch's steps, and their copies on rank 0
  bool has_device = false;          ///< with memory of its own

  std::uint64_t plans() const { return state + activations + weights + workspace + evaluation; }
  std::uint64_t total() const {
    return process + data + loader + plans() + checkpoint + communication + records;
  }
  /// What is compared with the limit: the device's part where it has memory of its own.
  std::uint64_t limited() const { return has_device ? plans() : total(); }
};

/// Of a run, and of this host among them.
struct Ranks {
  int all = 1, local = 1;
};

/// `config` resolved. `process_bytes`: resident bytes of a process before it has done anything.
MemoryEstimate estimate_memory(const Config& config, const graph::Graph& graph,
                               const backend::Backend& backend, const data::DataSizes& sizes,
                               Ranks ranks, std::uint64_t process_bytes);

/// Bytes that processes of ours can still take on this host: what Linux calls available, or what
/// the control group allows where that is less.
std::uint64_t available_memory();

}  // namespace lockstep::train
