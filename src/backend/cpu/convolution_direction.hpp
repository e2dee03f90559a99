// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "../feature_map.hpp"

namespace lockstep::backend::cpu {

struct FusedStatistics;

enum class Direction { forward, backward_data, backward_weights };
std::string_view name(Direction direction);  ///< "forward", "backward data", "backward weights"

/// Sizes of one convolution with a square kernel, including the batch.
struct ConvolutionSizes {
  std::int64_t images = 0;
  std::int64_t in_channels = 0, in_height = 0, in_width = 0;
  std::int64_t out_channels = 0, out_height = 0, out_width = 0;
  std::int64_t kernel = 0, stride = 0, padding = 0;
  bool has_bias = false;
  auto operator<=>(const ConvolutionSizes&) const = default;
};

/// The direction of a convolution that a `ConvolutionDirection` computes, which the maps must
/// outlive.
struct ConvolutionProblem {
  Direction direction;
  ConvolutionSizes sizes;
  const FeatureMap& source;
  const FeatureMap& destination;
};

/// One direction of a convolution, created once and run repeatedly on the same maps and weights.
/// The two maps are called source (on the input side of the convolution) and destination; this also
/// holds for their gradients.
class ConvolutionDirection {
 public:
  virtual ~ConvolutionDirection() = default;

  const std::string& implementation() const { return implementation_; }  ///< shown to users
  /// Returns the number of multiplications, relative to the direct algorithm.
  double arithmetic() const { return arithmetic_; }
  /// Requests that `run` also computes the statistics of the map that it writes. Returns false if
  /// the direction cannot. Must be called before `workspace_bytes`; the statistics must outlive the
  /// direction.
  virtual bool compute_statistics(FusedStatistics&) { return false; }
  /// Returns the bytes of workspace that the direction needs.
  virtual std::size_t workspace_bytes() const = 0;
  /// Assigns memory; the maps must have theirs. `workspace`: workspace of `workspace_bytes` bytes.
  /// `flat`: the weights of the model (KCRS, float32), or the destination of their gradient.
  /// `bias`: the bias, or the destination of its gradient; null if there is none.
  virtual void bind(std::byte* workspace, float* flat, float* bias) = 0;
  virtual void run() = 0;

 protected:
  ConvolutionDirection(std::string implementation, double arithmetic)
      : implementation_(std::move(implementation)), arithmetic_(arithmetic) {}

 private:
  std::string implementation_;
  double arithmetic_;
};

/// Returns consecutive parts of a workspace, each aligned to 64 bytes (arena allocator).
class ArenaAllocator {
 public:
  explicit ArenaAllocator(std::byte* at) : at_(at) {}
  static constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  template <class T = std::byte>
  T* take(std::size_t bytes) {
    std::byte* const taken = at_;
    at_ += aligned(bytes);
    return reinterpret_cast<T*>(taken);
  }

 private:
  std::byte* at_;
};

}  // namespace lockstep::backend::cpu
