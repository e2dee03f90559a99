// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "../convolution_direction.hpp"
#include "geometry.hpp"
#include "resources.hpp"
#include "winograd_tiles.hpp"

// The two kinds of directions: from one map to the other (forward and backward data), and from both
// maps to the gradient of the weights (backward weights); each directly, by Winograd's algorithm
// F(2x2, 3x3) with values in bfloat16, and by F(4x4, 3x3) with 16-bit integers.

namespace lockstep::backend::cpu::cells {

inline constexpr WinogradSizes f2x2_sizes{
    .patch_size = 4, .tile_size = 2, .frequencies = 16, .weight_frequencies = 16};

/// The algorithms in the names of implementations.
inline constexpr std::string_view f2x2_name = " winograd 2x2";
inline constexpr std::string_view int16_name = " winograd 4x4 int16";

/// Creates a direction that computes `to` from the map of `from`. `rows` and `columns` list, for
/// each row and column of `to`, the positions of `from` that contribute to it. `weights.flat` need
/// not be set; the rows of `weights` are the channels of `from`, its columns those of `to`.
std::unique_ptr<ConvolutionDirection> make_map_direction(
    const Resources& resources, std::unique_ptr<CellRows> from, const FeatureMap& to,
    std::vector<AxisTaps> rows, std::vector<AxisTaps> columns, const WeightMatrix& weights);
/// `is_rotated`: the 3x3 kernels are rotated by 180 degrees.
std::unique_ptr<ConvolutionDirection> make_f2x2_map_direction(const Resources& resources,
                                                              std::unique_ptr<CellRows> from,
                                                              const FeatureMap& to,
                                                              const WeightMatrix& weights,
                                                              bool is_rotated);
/// `direction`: forward or backward data; `from`: the rows of the map that it reads.
std::unique_ptr<ConvolutionDirection> make_int16_map_direction(
    const Resources& resources, Direction direction, const ConvolutionSizes& sizes,
    std::unique_ptr<CellRows> from, const FeatureMap& to, const WeightMatrix& weights);

std::unique_ptr<ConvolutionDirection> make_weights_direction(const Resources& resources,
                                                             const ConvolutionSizes& sizes,
                                                             std::unique_ptr<CellRows> source,
                                                             std::unique_ptr<CellRows> destination);
std::unique_ptr<ConvolutionDirection> make_f2x2_weights_direction(
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
    std::unique_ptr<CellRows> destination);
std::unique_ptr<ConvolutionDirection> make_int16_weights_direction(
    const Resources& resources, const ConvolutionSizes& sizes, std::unique_ptr<CellRows> source,
    std::unique_ptr<CellRows> destination);

/// Computes the gradients of the weights and of the bias from both maps. The gradient of the bias
/// is the sum of the output gradient for each channel: each thread has its own sums, which are
/// added at the end.
class WeightsDirection : public ConvolutionDirection {
 public:
  std::size_t workspace_bytes() const override {
    return bias_bytes() + static_cast<std::size_t>(threads_) * own_bytes() + shared_bytes();
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    bias_sums_ = arena.take<float>(bias_bytes());
    own_ = arena.take(static_cast<std::size_t>(threads_) * own_bytes());
    bind_shared(arena);
    flat_ = flat;
    bias_ = bias;
  }

  void run() override {
    if (bias_ != nullptr) std::fill_n(bias_sums_, threads_ * padded_channels(), 0.0F);
#pragma omp parallel num_threads(threads_)
    {
      kernels_.enter();
      compute();
      kernels_.leave();
    }
    if (bias_ == nullptr) return;
    std::fill_n(bias_, sizes_.out_channels, 0.0F);
    for (int thread = 0; thread < threads_; ++thread) {
      for (std::int64_t k = 0; k < sizes_.out_channels; ++k)
        bias_[k] += bias_sums_[thread * padded_channels() + k];
    }
  }

 protected:
  WeightsDirection(std::string_view instructions, std::string_view algorithm, double arithmetic,
                   const Resources& resources, const ConvolutionSizes& sizes,
                   std::unique_ptr<CellRows> source, std::unique_ptr<CellRows> destination)
      : ConvolutionDirection(implementation_name(instructions, algorithm, *source), arithmetic),
        kernels_(*resources.kernels),
        threads_(resources.threads),
        sizes_(sizes),
        source_(std::move(source)),
        destination_(std::move(destination)) {}

  /// Returns the bytes that each thread needs, a multiple of 64.
  virtual std::size_t own_bytes() const = 0;
  /// Returns the bytes that the threads share.
  virtual std::size_t shared_bytes() const = 0;
  virtual void bind_shared(ArenaAllocator& arena) = 0;
  /// Called by all threads, which share the work.
  virtual void compute() = 0;

  /// Returns the memory of this thread.
  core::BFloat16* own() const {
    return reinterpret_cast<core::BFloat16*>(own_ + static_cast<std::size_t>(omp_get_thread_num()) *
                                                        own_bytes());
  }
  /// Adds the values of a plain cell of a block of output channels to the gradient of the bias.
  void add_to_bias(std::int64_t block, const core::BFloat16* cell, std::int64_t images) const {
    if (bias_ != nullptr)
      kernels_.add_images(
          cell, images,
          bias_sums_ + omp_get_thread_num() * padded_channels() + block * cell_channels);
  }

  const Kernels& kernels_;
  int threads_;
  ConvolutionSizes sizes_;
  std::unique_ptr<CellRows> source_, destination_;
  float* flat_ = nullptr;  ///< the gradient of the weights (KCRS)

 private:
  std::int64_t padded_channels() const { return destination_->blocks() * cell_channels; }
  std::size_t bias_bytes() const {
    return static_cast<std::size_t>(threads_ * padded_channels()) * sizeof(float);
  }

  std::byte* own_ = nullptr;
  float* bias_sums_ = nullptr;  // (thread, padded channel)
  float* bias_ = nullptr;
};

}  // namespace lockstep::backend::cpu::cells
