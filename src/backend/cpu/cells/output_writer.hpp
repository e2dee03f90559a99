// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "../convolution_direction.hpp"
#include "../fused_statistics.hpp"
#include "geometry.hpp"

namespace lockstep::backend::cpu::cells {

/// The map that a direction computes: the bias that is added to it, and the statistics that are
/// computed while it is written.
class OutputWriter {
 public:
  /// The map must outlive the object.
  OutputWriter(const FeatureMap& map, int threads) : map_(map), threads_(threads) {}

  const FeatureMap& map() const { return map_; }
  std::int64_t blocks() const { return channel_blocks(map_); }
  bool has_bias() const { return bias_ != nullptr; }

  void compute_statistics(FusedStatistics& statistics) {
    statistics_ = std::make_unique<StatisticsAccumulator>(statistics, channels(), threads_);
  }

  std::size_t workspace_bytes() const {
    return ArenaAllocator::aligned(static_cast<std::size_t>(channels()) * sizeof(float));
  }
  /// `bias`: one value per channel, or null.
  void bind(std::byte* workspace, const float* bias) {
    padded_bias_ = reinterpret_cast<float*>(workspace);
    bias_ = bias;
  }

  // `begin` and `finish` must be called before and after the threads write.
  void begin() {
    if (has_bias()) {
      std::fill_n(padded_bias_, channels(), 0.0F);
      std::copy_n(bias_, map_.shape.channels, padded_bias_);
    }
    if (statistics_ != nullptr) statistics_->begin();
  }
  void finish() {
    if (statistics_ != nullptr) statistics_->finish();
  }

  /// Returns the bias of a block of channels, 32 values; null if there is none.
  const float* bias(std::int64_t block) const {
    return has_bias() ? padded_bias_ + block * cell_channels : nullptr;
  }
  /// Calls write(sums), which adds the values that it writes to a block of channels to `sums`, if
  /// they are not null. Called by any thread.
  template <class Write>
  void write(std::int64_t block, Write&& write) const {
    PartialSums sums;
    write(statistics_ != nullptr ? &sums : nullptr);
    if (statistics_ != nullptr)
      statistics_->add(omp_get_thread_num(), block * cell_channels, cell_channels, sums);
  }

 private:
  std::int64_t channels() const { return blocks() * cell_channels; }

  const FeatureMap& map_;
  int threads_;
  const float* bias_ = nullptr;
  float* padded_bias_ = nullptr;
  std::unique_ptr<StatisticsAccumulator> statistics_;  // null: not computed
};

}  // namespace lockstep::backend::cpu::cells
