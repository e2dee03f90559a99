// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "lockstep/comm/gradient_reducer.hpp"

namespace lockstep::comm {

class AllReduceResources;

/// When the all-reduces of the buckets start. `overlapped`: as soon as all gradients of the bucket
/// are final, so that they overlap with the rest of the backward pass. `late`: after the backward
/// pass. `never`: the reducer does not communicate.
enum class BucketStart { overlapped, late, never };

/// Ranks that receive the sum of a bucket.
enum class SumPlacement { all_ranks, rank_0 };

/// A gradient reducer in the registry.
struct ReducerEntry {
  ReducerKind kind;
  std::string_view help;  ///< meaning, for --help
  BucketStart start = BucketStart::late;
  /// Algorithm that the reducer uses; none if --all-reduce selects it.
  std::optional<AllReduceAlgorithm> algorithm{};
  SumPlacement placement = SumPlacement::all_ranks;
  /// Prepares the sum of the bucket `values` in host memory; null if it is the all-reduce of the
  /// algorithm. The transport nccl does not use it. Otherwise `algorithm` is the name that the run
  /// file records. `state`: the values that the reducer keeps for these gradients. Collective: all
  /// ranks must call this.
  std::unique_ptr<AllReduce> (*make_sum)(AllReduceResources& resources, std::span<float> values,
                                         std::span<float> state,
                                         const ReducerOptions& options) = nullptr;
  /// Returns the bytes that a rank contributes to the sum of a bucket of `elements` gradients; null
  /// if it contributes all gradients in the communication data type. Every rank stores the
  /// contributions of all ranks.
  std::size_t (*bytes_of)(std::size_t elements, const ReducerOptions& options) = nullptr;
  bool has_state = false;  ///< keeps a value per gradient between steps (`GradientReducer::state`)
  /// The sums differ from those of a plain loop over the ranks only by rounding.
  bool is_exact = true;
};

/// Returns the entry of a reducer.
const ReducerEntry& find_reducer(ReducerKind kind);

}  // namespace lockstep::comm
