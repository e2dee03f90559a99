#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/data_type.hpp"

// Models of GPUs and of networks, from which the time of a training step is predicted. The numbers
// of the built-in models and their sources are in src/train/prediction/models.json.

namespace lockstep::train {

/// A quantity with its uncertainty, low <= high.
struct Interval {
  double low = 0, high = 0;

  /// Returns the value between `low` (share 0) and `high` (share 1).
  double at(double share) const { return low + share * (high - low); }
  double middle() const { return at(0.5); }
};

/// A number of a model with its source.
struct Quantity {
  std::string name{};
  Interval value{};
  std::string unit{};    ///< "FLOP/s", "bytes/s", "bytes", "s"; empty: a count or a ratio
  std::string source{};  ///< publication, or the assumption
  bool is_verified = false;
};

/// A GPU at one precision. Efficiencies are shares of `flops_per_second` and `bytes_per_second`.
struct GpuModel {
  std::string name{};           ///< as in `--for`: "h200"
  std::string product{};        ///< "NVIDIA H200 SXM"
  double flops_per_second = 0;  ///< highest rate that matrix products reach
  double bytes_per_second = 0;  ///< memory bandwidth of a copy
  double multiprocessors = 1;
  double second_level_cache = 0;  ///< bytes
  Interval on_chip_memory{};      ///< bytes that one kernel can hold in registers and shared memory
  Interval convolution_rate{1, 1};       ///< efficiency of the arithmetic of convolutions
  Interval narrow_tile{1, 1};            ///< additional efficiency if a side of the tile is 64
  Interval convolution_bandwidth{1, 1};  ///< efficiency of the memory traffic of convolutions
  Interval batch_norm_bandwidth{1, 1};   ///< of batch norm in a single kernel
  Interval streaming_bandwidth{1, 1};    ///< of all other kernels
  Interval kernel_gap{};                 ///< seconds between two kernels of a CUDA graph
  Interval kernel_minimum{};             ///< seconds that the smallest kernel takes
  Interval timestamp{};                  ///< seconds per timestamp in the graph
  Interval graph_gap{};                  ///< seconds between two launches of the graph
  std::optional<Interval>
      nvlink_bus;  ///< bus bandwidth of NCCL over NVLink, bytes/s; nothing: none
  std::optional<Interval>
      nvlink_bus_of_8;                 ///< the same for more than 4 GPUs; nothing: `nvlink_bus`
  std::optional<Interval> pcie_bus{};  ///< bus bandwidth over PCI Express
  std::vector<Quantity> quantities{};  ///< all numbers of the model with their sources
};

/// A network between the GPUs of a job: nodes of equal size, connected by network adapters. The
/// time of an all-reduce is a sum of latencies and of bytes divided by bandwidths.
struct NetworkModel {
  std::string name{};
  int ranks_per_node = 1;
  Interval base_latency{};        ///< seconds per all-reduce
  std::optional<Interval> bus{};  ///< bus bandwidth in a node, bytes/s; as `busbw` of nccl-tests
  std::optional<Interval> bus_of_8{};  ///< the same for more than 4 ranks in a node
  Interval node_step{};                ///< seconds per step of a ring in a node
  std::optional<Interval> adapter{};   ///< bandwidth between nodes per rank, bytes/s
  Interval network_step{};             ///< seconds per step of a tree of nodes
  std::vector<Quantity> quantities{};  ///< all numbers of the model with their sources
};

/// Returns the model of a GPU. Throws `Error` (usage) if there is no model of that name or if the
/// GPU does not support the precision.
GpuModel gpu_model(std::string_view name, core::Precision precision);

/// Returns the names of the GPUs that have a model.
std::vector<std::string> modelled_gpus();

/// Returns the network `nvlink`, `pcie` or `infiniband` of `gpu`, or reads a network from a JSON
/// file (format: docs/performance.md). Throws `Error`: usage if `name` is neither or if the GPU has
/// no such link, input if the file is not a valid network.
NetworkModel network_model(const std::string& name, const GpuModel& gpu);

}  // namespace lockstep::train
