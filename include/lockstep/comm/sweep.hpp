#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/data_type.hpp"
#include "lockstep/core/progress.hpp"

namespace lockstep::comm {

/// Which all-reduces to time. Sizes go from `min_bytes` to `max_bytes`, each `factor` times the one
/// before.
struct SweepOptions {
  std::size_t min_bytes = 4;                      ///< of float32 values
  std::size_t max_bytes = std::size_t{64} << 20;  ///< of float32 values
  std::size_t factor = 4;                         ///< at least 2
  int repeats = 20;
  int warmup = 5;
  core::DataType wire = core::DataType::float32;  ///< what travels
  core::ProgressMonitor* progress = nullptr;      ///< informed of each sum
};

/// One size, one way.
struct SweepRow {
  std::string way;  ///< name of an `AllReduceWay`, or "mpi-blocking": MPI_Allreduce in float32; of
                    ///< arrays on GPUs "nccl" or "staged"
  std::size_t elements = 0;                       ///< of the array
  core::DataType type = core::DataType::float32;  ///< in which the elements are communicated
  std::vector<double> seconds;                    ///< of each repeat: the slowest rank's
  std::uint64_t wrong = 0;  ///< elements that did not hold the sum, all ranks and repeats

  /// Bytes that one rank contributes to the sum.
  std::size_t bytes() const { return elements * core::size_of(type); }
};

/// Bytes of the arrays, ascending. Throws `Error` (usage) for sizes or counts that make no sense.
std::vector<std::size_t> sweep_sizes(const SweepOptions& options);

/// Bytes of the array per second.
double algorithm_bandwidth(std::size_t bytes, double seconds);

/// Bytes per second through each rank's link by the least traffic an all-reduce can do:
/// 2 (N-1) / N times the above. To be compared with the link's rate.
double bus_bandwidth(std::size_t bytes, double seconds, int ranks);

/// Times sums of integers whose result is known; every element of every repeat is checked. The ways
/// take turns, so that a change of the machine's load meets both. Throws `Error` (usage) for sizes
/// or counts that make no sense. Collective; every rank gets the same rows.
std::vector<SweepRow> sweep_all_reduce(Communicator& communicator, const SweepOptions& options);

}  // namespace lockstep::comm
