// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../fusion.hpp"

namespace lockstep::backend::cpu {

/// Sums over the output x of a convolution, as it is stored, for the batch norm that reads it. Some
/// convolutions compute them while they write x, which saves the batch norm a pass over x.
struct FusedStatistics {
  graph::NodeId convolution = -1;
  graph::NodeId batch_norm = -1;
  /// True if the convolution computes the sums. Set when the convolution is created, which is
  /// before the batch norm is created.
  bool is_computed = false;
  std::vector<double> sum, square;  ///< of x and of its square, per channel
};

/// Returns one entry for each pair of a convolution and the batch norm that follows it in a plan
/// for training.
std::vector<FusedStatistics> fused_statistics(const std::vector<Step>& steps);

/// Sums of a few values of up to 32 channels in float32. They are about a shift, the first value of
/// each channel, to avoid cancellation in the variance.
struct PartialSums {
  static constexpr std::size_t channels = 32;
  std::array<float, channels> shift, sum, square;
  std::int64_t count = 0;  ///< values per channel; 0: the arrays are not set

  /// Adds one value of each channel.
  void add(const std::array<float, channels>& values);
};

/// Accumulates `FusedStatistics` in several threads. Kernels compute partial sums in float32; this
/// class adds them in double, so that the result does not lose precision in large maps.
class StatisticsAccumulator {
 public:
  /// `channels`: including those that pad the map.
  StatisticsAccumulator(FusedStatistics& result, std::int64_t channels, int threads);

  /// Sets the sums to zero. Call it, and `finish`, outside of the threads.
  void begin();
  /// Adds the sums of `count` channels from `channel` on.
  void add(int thread, std::int64_t channel, std::int64_t count, const PartialSums& part);
  /// Writes the sums of all threads to the result.
  void finish();

 private:
  double* sums_of(int thread) {
    return sums_.data() + 2 * static_cast<std::size_t>(thread) * channels_;
  }

  FusedStatistics& result_;
  std::size_t channels_;
  int threads_;
  std::vector<double> sums_;  // (thread, sum or square, channel)
};

}  // namespace lockstep::backend::cpu
