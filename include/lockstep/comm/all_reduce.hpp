// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/core/data_type.hpp"
#include "lockstep/core/named_value.hpp"

namespace lockstep::comm {

/// An all-reduce algorithm for arrays in host memory, identified by its name on the command line.
/// `named_values` also has the algorithms without a constant.
class AllReduceAlgorithm {
 public:
  /// The fastest available algorithm, selected by timing.
  static const AllReduceAlgorithm automatic;
  /// Each rank sums one part of the array in memory that all ranks share; needs one host.
  static const AllReduceAlgorithm shared_memory;
  /// `shared_memory` within hosts and `direct` between them; needs several hosts with the same
  /// number of ranks, at least 2.
  static const AllReduceAlgorithm hierarchical;
  /// Pairwise exchange: each rank receives the contributions to its part of the array, sums them
  /// and sends the result to all.
  static const AllReduceAlgorithm direct;
  /// Rank 0 receives all arrays, sums them in rank order and sends the sum back; float32. It is
  /// never selected by timing, because the link of rank 0 carries the arrays of all ranks.
  static const AllReduceAlgorithm gather_scatter;
  static const AllReduceAlgorithm ring;  ///< messages to the next rank only; float32
  static const AllReduceAlgorithm mpi;   ///< MPI_Iallreduce of the MPI library; float32

  constexpr AllReduceAlgorithm() = default;  ///< `automatic`
  /// `name` must be a string literal.
  constexpr explicit AllReduceAlgorithm(std::string_view name) : name_(name) {}

  constexpr std::string_view name() const { return name_; }
  constexpr bool operator==(const AllReduceAlgorithm&) const = default;

 private:
  std::string_view name_ = "auto";
};

inline constexpr AllReduceAlgorithm AllReduceAlgorithm::automatic{};
inline constexpr AllReduceAlgorithm AllReduceAlgorithm::shared_memory{"shared-memory"};
inline constexpr AllReduceAlgorithm AllReduceAlgorithm::hierarchical{"hierarchical"};
inline constexpr AllReduceAlgorithm AllReduceAlgorithm::direct{"direct"};
inline constexpr AllReduceAlgorithm AllReduceAlgorithm::gather_scatter{"gather-scatter"};
inline constexpr AllReduceAlgorithm AllReduceAlgorithm::ring{"ring"};
inline constexpr AllReduceAlgorithm AllReduceAlgorithm::mpi{"mpi"};

/// Returns `automatic` and the algorithms of the registry (src/comm/all_reduce/registry.cpp), with
/// their names and meanings.
std::span<const core::NamedValue<AllReduceAlgorithm>> named_values(AllReduceAlgorithm);

/// Returns the data type in which `algorithm` communicates if `requested` is requested: `requested`
/// if the algorithm can convert the values that it sends, otherwise float32.
core::DataType supported_type(AllReduceAlgorithm algorithm, core::DataType requested);

/// Returns an upper bound of the memory, in bytes, that an all-reduce of `elements` values with the
/// communication data type `communication_type` adds to the resident memory of each of `ranks`
/// ranks, of which `local_ranks` are on its host: its workspace, and what it accesses of the arrays
/// of other ranks. For `automatic` it is the largest bound of the algorithms that can be selected.
std::size_t all_reduce_memory_bytes(AllReduceAlgorithm algorithm, std::size_t elements, int ranks,
                                    int local_ranks, core::DataType communication_type);

/// Throws `Error` (usage) unless `type` is supported as communication data type: float32 or
/// bfloat16.
void check_communication_type(core::DataType type);

/// Bytes that a rank exchanges with other ranks in messages that this program posts, counted where
/// they are posted. Messages between ranks of one host count as well; reads and writes of shared
/// memory do not. NaN if a library selects the messages (MPI_Iallreduce, collectives of NCCL).
struct Traffic {
  double sent_bytes = 0;
  double received_bytes = 0;

  Traffic& operator+=(const Traffic& other) {
    sent_bytes += other.sent_bytes;
    received_bytes += other.received_bytes;
    return *this;
  }
  bool operator==(const Traffic&) const = default;
};

/// Returns the traffic of messages that a library selects.
Traffic unknown_traffic();

/// A persistent all-reduce: the in-place sum over the ranks of one fixed array, prepared once and
/// run once per step. After completion every rank holds the same bits. `shared_memory`, `direct`
/// and `gather_scatter` sum each element on one rank, in float32 and in rank order, so that the
/// result does not depend on how the array is partitioned; the other algorithms use other orders of
/// summation.
///
/// If the communication data type is bfloat16, `direct` and the communication between hosts of
/// `hierarchical` round the contributions and the sum to bfloat16. Sums in shared memory and a
/// communicator of one rank do not round.
class AllReduce {
 public:
  virtual ~AllReduce() = default;

  /// Starts the all-reduce of the array's current values and returns immediately. The array must
  /// not be accessed until `progress` has returned true. All ranks must start their all-reduces in
  /// the same order. Throws `Error` (internal) if the last all-reduce of this array is in progress.
  virtual void start() = 0;

  /// Advances the communication without blocking and without allocating memory. Returns true once
  /// the array holds the sum.
  virtual bool progress() = 0;

  /// Returns the bytes of the messages of this rank in the last all-reduce, as far as they have
  /// been posted.
  virtual Traffic traffic() const = 0;

  /// Blocks until the array holds the sum. Yields the CPU core between calls of `progress`.
  void finish();
};

/// Measured time of one all-reduce.
struct AlgorithmTime {
  AllReduceAlgorithm algorithm = {};
  double seconds = 0;
};

/// The selected all-reduce algorithm and the measurements for the selection.
struct AllReduceChoice {
  AllReduceAlgorithm algorithm = {};      ///< automatic: no all-reduce, or selected by NCCL
  std::vector<AlgorithmTime> timed = {};  ///< empty if no algorithm was timed
  std::size_t timed_bytes = 0;            ///< size of the float32 array that was timed
};

}  // namespace lockstep::comm
