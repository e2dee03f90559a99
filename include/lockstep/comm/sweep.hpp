// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/data_type.hpp"
#include "lockstep/core/progress.hpp"

namespace lockstep::comm {

/// Options of the all-reduce benchmark. The array sizes go from `min_bytes` to at most `max_bytes`;
/// each is `factor` times the previous one.
struct SweepOptions {
  std::size_t min_bytes = std::size_t{1} << 10;   ///< size of an array of float32 values
  std::size_t max_bytes = std::size_t{64} << 20;  ///< size of an array of float32 values
  int factor = 4;                                 ///< at least 2
  int repeats = 20;                               ///< timed all-reduces per array size
  int warmup = 5;                                 ///< all-reduces before them that are not timed
  core::DataType communication_type = core::DataType::float32;  ///< communication data type
  core::ProgressMonitor* progress = nullptr;  ///< notified after each all-reduce; may be null
};

/// Results of one array size and one algorithm or transport.
struct SweepRow {
  std::string algorithm =
      {};  ///< name of an `AllReduceAlgorithm`, or "mpi-blocking" (MPI_Allreduce in
           ///< float32); "nccl" or "staged" for arrays on GPUs
  std::size_t elements = 0;                       ///< length of the array
  core::DataType type = core::DataType::float32;  ///< communication data type
  std::vector<double> seconds = {};               ///< of each repeat, on the slowest rank
  std::uint64_t wrong = 0;  ///< elements that did not hold the sum: all ranks, all repeats, warm-up

  /// Returns the bytes that one rank contributes to the sum.
  std::size_t bytes() const { return elements * core::size_of(type); }
};

/// Returns the sizes of the arrays in bytes, ascending. Throws `Error` (usage) unless 4 <=
/// `min_bytes` <= `max_bytes`, `factor` >= 2, `repeats` >= 1 and `warmup` >= 0.
std::vector<std::size_t> sweep_sizes(const SweepOptions& options);

/// Returns the algorithm bandwidth in bytes per second: the size of the array divided by the time.
double algorithm_bandwidth(std::size_t bytes, double seconds);

/// Returns the bus bandwidth in bytes per second: the algorithm bandwidth times 2 (N-1) / N with N
/// = `ranks`, which is the rate through the link of each rank for the minimum traffic of an
/// all-reduce. It can be compared with the rate of the link.
double bus_bandwidth(std::size_t bytes, double seconds, int ranks);

}  // namespace lockstep::comm
