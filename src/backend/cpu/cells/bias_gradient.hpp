// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../convolution_direction.hpp"
#include "kernels.hpp"

namespace lockstep::backend::cpu::cells {

/// The gradient of the bias: for each channel the sum of the output gradient. Each thread has its
/// own sums, which are added at the end.
class BiasGradient {
 public:
  BiasGradient(std::int64_t channels, int threads)
      : channels_(channels),
        padded_(ceil_div(channels, cell_channels) * cell_channels),
        threads_(threads) {}

  std::size_t workspace_bytes() const {
    return ArenaAllocator::aligned(static_cast<std::size_t>(threads_ * padded_) * sizeof(float));
  }
  /// `bias`: destination of the gradient, or null.
  void bind(std::byte* workspace, float* bias) {
    sums_ = reinterpret_cast<float*>(workspace);
    bias_ = bias;
  }

  // `begin` and `finish` must be called before and after the threads add values.
  void begin() {
    if (bias_ != nullptr) std::fill_n(sums_, threads_ * padded_, 0.0F);
  }
  void finish() {
    if (bias_ == nullptr) return;
    std::fill_n(bias_, channels_, 0.0F);
    for (int thread = 0; thread < threads_; ++thread) {
      for (std::int64_t k = 0; k < channels_; ++k) bias_[k] += sums_[thread * padded_ + k];
    }
  }

  /// Adds the values of a plain cell of a block of channels, which has `images` images.
  void add(const Kernels& kernels, int thread, std::int64_t block, const core::BFloat16* cell,
           std::int64_t images) const {
    if (bias_ != nullptr)
      kernels.add_images(cell, images, sums_ + thread * padded_ + block * cell_channels);
  }

 private:
  std::int64_t channels_, padded_;
  int threads_;
  float* sums_ = nullptr;  // (thread, padded channel)
  float* bias_ = nullptr;
};

}  // namespace lockstep::backend::cpu::cells
