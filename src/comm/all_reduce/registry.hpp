// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "pipeline.hpp"

namespace lockstep::comm {

/// The ranks, the array and the data type for which an algorithm is requested.
struct AllReduceConditions {
  bool is_one_host = true;  ///< all ranks are on one host
  /// Every rank has the array in shared memory (`AllReduceResources::allocate`).
  bool is_shared = false;
  core::DataType communication_type = core::DataType::float32;
};

/// Data types in which an algorithm sends values.
enum class CommunicationTypes {
  float32,  ///< float32 only
  any,      ///< the requested data type
  none,     ///< it reads float32 values in shared memory; the requested data type has no effect
};

/// An all-reduce algorithm in the registry. The file of the algorithm defines the function that
/// returns its entry.
struct AllReduceEntry {
  AllReduceAlgorithm algorithm;
  std::string_view help = {};  ///< meaning, for --help; empty if the name says it
  CommunicationTypes types = CommunicationTypes::float32;
  bool shares_memory = false;  ///< reads the memory of other ranks of its host
  bool is_timed = true;        ///< by `automatic`; otherwise only a request selects it
  /// Returns why the algorithm is not available; empty if it is. Called only for at least 2 ranks
  /// and a supported data type; null if the algorithm is then always available.
  std::string_view (*obstacle)(const AllReduceConditions& conditions) = nullptr;
  /// Returns the steps of a rank; null if the algorithm is no schedule. A schedule needs neither of
  /// the functions below.
  Schedule (*schedule)(std::size_t elements, std::size_t rank, std::size_t ranks) = nullptr;
  /// Returns an upper bound of the workspace in bytes of one rank; null if there is none.
  std::size_t (*workspace_bytes)(std::size_t elements, std::size_t ranks,
                                 core::DataType communication_type) = nullptr;
  /// Prepares the all-reduce of an array. Collective: all ranks must call this.
  std::unique_ptr<AllReduce> (*make)(AllReduceResources& resources, std::span<float> values,
                                     core::DataType communication_type) = nullptr;
};

/// Returns the entries of all algorithms.
std::span<const AllReduceEntry> all_reduce_registry();

/// Returns the entry of `algorithm`. Throws `Error` (internal) if there is none.
const AllReduceEntry& find_all_reduce(AllReduceAlgorithm algorithm);

/// Returns why an algorithm is not available; empty if it is.
std::string_view obstacle_of(const AllReduceEntry& entry, const AllReduceConditions& conditions);

/// Returns the algorithms that can sum `values` with the communication data type
/// `communication_type`; none if there is one rank. Collective: all ranks must call this.
std::vector<AllReduceAlgorithm> available_algorithms(AllReduceResources& resources,
                                                     std::span<const float> values,
                                                     core::DataType communication_type);

/// Prepares the all-reduce of `values` with `algorithm`, which must be available, and the
/// communication data type `communication_type` (float32 or bfloat16). Allocates all memory that
/// the all-reduce needs. Throws `AgreedError` if the message tags of the MPI library are exhausted
/// (usage) or no shared memory is left (out_of_memory). Collective: all ranks must call this.
std::unique_ptr<AllReduce> make_all_reduce(AllReduceResources& resources, std::span<float> values,
                                           core::DataType communication_type,
                                           AllReduceAlgorithm algorithm);

/// Selects the algorithm for the all-reduce of `values`: `requested` if it is a specific algorithm,
/// otherwise the fastest available one. To find the fastest, it times each algorithm on the first
/// elements of `values`, which keep their values only if they are 0. Returns `automatic` if there
/// is only one rank. Throws `AgreedError` (usage) if `requested` is not available or
/// `communication_type` is not supported. Collective: all ranks must call this, and all get the
/// same result.
AllReduceChoice choose_algorithm(AllReduceResources& resources, std::span<float> values,
                                 core::DataType communication_type, AllReduceAlgorithm requested);

}  // namespace lockstep::comm
