// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "directions.hpp"

// What the directions that compute one map from the other have in common: forward and backward
// data, directly and by Winograd's algorithms (winograd_map_direction.hpp).

namespace lockstep::backend::cpu::cells {

/// Computes one map from the other. The derived classes convert the weights to weight cells and
/// multiply them.
class MapDirection : public ConvolutionDirection {
 public:
  bool compute_statistics(FusedStatistics& statistics) override {
    statistics_ =
        std::make_unique<StatisticsAccumulator>(statistics, to_.padded_channels(), threads_);
    return true;
  }

  std::size_t workspace_bytes() const override {
    return weight_bytes() + bias_bytes() + shared_bytes() +
           static_cast<std::size_t>(threads_) * own_bytes();
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    weights_ = arena.take(weight_bytes());
    padded_bias_ = arena.take<float>(bias_bytes());
    bind_shared(arena);
    own_ = arena.take(0);
    matrix_.flat = flat;
    bias_ = bias;
  }

  void run() override {
    if (bias_ != nullptr) {
      std::fill_n(padded_bias_, to_.padded_channels(), 0.0F);
      std::copy_n(bias_, to_.shape.channels, padded_bias_);
    }
    if (statistics_ != nullptr) statistics_->begin();
#pragma omp parallel num_threads(threads_)
    {
      kernels_.enter();
      prepare_weights();
      if (stores_weights_) {
#pragma omp for schedule(static)
        for (std::int64_t i = 0; i < from_->blocks() * to_.blocks(); ++i) {
          const auto [from, to] = matrix_.block_at(i);
          convert_weights(from, to, weights_of(to));
        }
      }
      compute(own_ + static_cast<std::size_t>(omp_get_thread_num()) * own_bytes());
      kernels_.leave();
    }
    if (statistics_ != nullptr) statistics_->finish();
  }

 protected:
  /// `weight_cells`: per block of `from` and block of `to`. `stores_weights`: all of them are
  /// stored before the map is computed.
  MapDirection(std::string_view instructions, std::string_view algorithm, double arithmetic,
               const Resources& resources, std::unique_ptr<CellRows> from, const FeatureMap& to,
               const WeightMatrix& weights, std::int64_t weight_cells, bool stores_weights)
      : ConvolutionDirection(implementation_name(instructions, algorithm, *from), arithmetic),
        kernels_(*resources.kernels),
        threads_(resources.threads),
        from_(std::move(from)),
        to_(to),
        matrix_(weights),
        weight_cells_(weight_cells),
        stores_weights_(stores_weights) {}

  /// Returns the bytes that each thread needs, a multiple of 64.
  virtual std::size_t own_bytes() const = 0;
  /// Returns the bytes that the threads share in addition to the weights, a multiple of 64.
  virtual std::size_t shared_bytes() const { return 0; }
  virtual void bind_shared(ArenaAllocator&) {}
  /// Prepares the conversion of weights. Called by all threads, which share the work; must end with
  /// a barrier if it does anything.
  virtual void prepare_weights() const {}
  /// Writes the weight cells of a block of `from` to those of a block of `to`.
  virtual void convert_weights(std::int64_t from_block, std::int64_t to_block,
                               std::byte* weights) const = 0;
  /// Computes the map. Called by all threads, which share the work; `own`: memory of the thread.
  virtual void compute(std::byte* own) const = 0;

  /// Returns the stored weight cells [tap or frequency][block of from] of a block of `to`.
  std::byte* weights_of(std::int64_t to_block) const {
    return weights_ + to_block * weight_block_bytes();
  }
  std::int64_t weight_block_bytes() const { return weight_cells_ * from_->blocks() * cell_bytes; }
  /// Returns the values from the cells of one tap or frequency to those of the next.
  std::int64_t weight_stride() const { return from_->blocks() * cell_size; }
  bool stores_weights() const { return stores_weights_; }
  /// Returns the bias of a block of channels, 32 values; null if there is none.
  const float* bias_of(std::int64_t block) const {
    return bias_ != nullptr ? padded_bias_ + block * cell_channels : nullptr;
  }
  /// Calls write(sums), which adds the values that it writes to a block of channels to `sums`, if
  /// they are not null.
  template <class Write>
  void with_statistics(std::int64_t block, Write&& write) const {
    PartialSums sums;
    write(statistics_ != nullptr ? &sums : nullptr);
    if (statistics_ != nullptr)
      statistics_->add(omp_get_thread_num(), block * cell_channels, cell_channels, sums);
  }

  const Kernels& kernels_;
  int threads_;
  std::unique_ptr<CellRows> from_;
  const FeatureMap& to_;
  WeightMatrix matrix_;

 private:
  std::size_t weight_bytes() const {
    return stores_weights_ ? static_cast<std::size_t>(to_.blocks() * weight_block_bytes()) : 0;
  }
  std::size_t bias_bytes() const {
    return static_cast<std::size_t>(to_.padded_channels()) * sizeof(float);
  }

  std::int64_t weight_cells_;
  bool stores_weights_;
  std::byte* weights_ = nullptr;  // shared by the threads
  const float* bias_ = nullptr;
  float* padded_bias_ = nullptr;
  std::byte* own_ = nullptr;                           // of each thread
  std::unique_ptr<StatisticsAccumulator> statistics_;  // null: not computed
};

}  // namespace lockstep::backend::cpu::cells
