// SPDX-License-Identifier: BSD-3-Clause
#include <omp.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "division.hpp"
#include "fused_statistics.hpp"
#include "winograd.hpp"

namespace lockstep::backend::cpu::winograd {

namespace {

/// Tiles that are multiplied at once; their products should stay in the L2 cache.
constexpr std::int64_t product_tiles = 48;

/// Computes one map from the other: forward and backward data. If there are enough tiles, each
/// thread computes its own blocks. Otherwise all threads share each block: they transform its
/// input together, and each of them computes some panels of the output, or some tiles of a panel.
class MapDirection : public ConvolutionDirection {
 public:
  MapDirection(int threads, const FeatureMap& from, const FeatureMap& to, const Kernels& kernels)
      : ConvolutionDirection(implementation_name(lanes_for(from, to)), arithmetic_of(to)),
        threads_(threads),
        from_(from),
        to_(to),
        kernels_(kernels),
        tiling_(tiling_of(to)),
        blocks_(tiling_, from.shape.channels, threads),
        input_(panels_of(blocks_.most_tiles(), from.shape.channels, lanes_for(from, to))),
        weights_(panels_of(from.shape.channels, input_.lanes(), input_.vector_lanes)),
        products_(panels_of(std::min(blocks_.most_tiles(), product_tiles), input_.lanes(),
                            input_.vector_lanes)) {}

  bool compute_statistics(FusedStatistics& statistics) override {
    statistics_ = std::make_unique<StatisticsAccumulator>(statistics, to_.shape.channels, threads_);
    return true;
  }

  std::size_t workspace_bytes() const override {
    return (blocks_.are_shared() ? ArenaAllocator::aligned(input_.bytes()) : 0) +
           static_cast<std::size_t>(threads_) * own_bytes();
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    if (blocks_.are_shared()) input_.data = reinterpret_cast<float*>(arena.take(input_.bytes()));
    own_ = arena.take(0);
    kernels_.data = flat;
    bias_ = bias;
  }

  void run() override {
    if (statistics_ != nullptr) statistics_->begin();
#pragma omp parallel num_threads(threads_)
    {
      const Memory memory(*this, omp_get_thread_num());
      if (blocks_.are_shared()) {
        for (std::int64_t block = 0; block < blocks_.count(); ++block)
          run_shared(blocks_.range(block), memory);
      } else {
#pragma omp for schedule(static)
        for (std::int64_t block = 0; block < blocks_.count(); ++block)
          run_alone(blocks_.range(block), memory);
      }
    }
    if (statistics_ != nullptr) statistics_->finish();
  }

 private:
  std::size_t own_bytes() const {
    return (blocks_.are_shared() ? 0 : ArenaAllocator::aligned(input_.bytes())) +
           ArenaAllocator::aligned(weights_.bytes()) + ArenaAllocator::aligned(products_.bytes());
  }

  /// The memory that one thread uses: the transformed input of a block, and the transformed weights
  /// and the products of a panel.
  struct Memory {
    Memory(const MapDirection& direction, int thread)
        : input(direction.input_), weights(direction.weights_), products(direction.products_) {
      ArenaAllocator own(direction.own_ + static_cast<std::size_t>(thread) * direction.own_bytes());
      if (!direction.blocks_.are_shared())
        input.data = reinterpret_cast<float*>(own.take(input.bytes()));
      weights.data = reinterpret_cast<float*>(own.take(weights.bytes()));
      products.data = reinterpret_cast<float*>(own.take(products.bytes()));
    }
    Panels input, weights, products;
  };

  std::int64_t panels() const { return to_.shape.channels / input_.lanes(); }

  void run_alone(TileRange block, const Memory& memory) const {
    for (std::int64_t tile = 0; tile < block.count; tile += transform_tiles)
      transform_tiles_of(block, tile, memory);
    for (std::int64_t panel = 0; panel < panels(); ++panel)
      compute_panel(block, panel, {0, block.count}, memory);
  }

  /// Called by all threads, which share the work; ends with a barrier.
  void run_shared(TileRange block, const Memory& memory) const {
    const std::int64_t parts = threads_ / std::gcd(panels(), std::int64_t{threads_});
#pragma omp for schedule(static)
    for (std::int64_t tile = 0; tile < block.count; tile += transform_tiles)
      transform_tiles_of(block, tile, memory);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < panels() * parts; ++task)
      compute_panel(block, task / parts, part_of(block.count, task % parts, parts), memory);
  }

  /// Transforms the input of some tiles of a block from `tile` on.
  void transform_tiles_of(TileRange block, std::int64_t tile, const Memory& memory) const {
    transform_input(from_, tiling_,
                    {block.first + tile, std::min(transform_tiles, block.count - tile)},
                    memory.input, tile);
  }

  /// Computes one panel of some tiles of a block.
  void compute_panel(TileRange block, std::int64_t panel, Range tiles, const Memory& memory) const {
    if (tiles.first < tiles.last) transform_weights(kernels_, panel, memory.weights);
    for (std::int64_t tile = tiles.first; tile < tiles.last; tile += product_tiles) {
      const std::int64_t count = std::min(product_tiles, tiles.last - tile);
      for (std::int64_t f = 0; f < frequencies; ++f)
        multiply(memory.input, tile, memory.weights, memory.products, count, f);
      write_output(memory.products, {block.first + tile, count}, panel);
    }
  }

  void write_output(const Panels& products, TileRange range, std::int64_t panel) const {
    PartialSums sums;
    transform_output(products, to_, tiling_, range, panel, bias_,
                     statistics_ != nullptr ? &sums : nullptr);
    if (statistics_ != nullptr)
      statistics_->add(omp_get_thread_num(), panel * products.lanes(), products.lanes(), sums);
  }

  int threads_;
  const FeatureMap& from_;
  const FeatureMap& to_;
  Kernels kernels_;
  Tiling tiling_;
  TileBlocks blocks_;
  Panels input_, weights_, products_;  // sizes; the data of `input_` if the threads share it
  std::byte* own_ = nullptr;           // memory of each thread
  const float* bias_ = nullptr;
  std::unique_ptr<StatisticsAccumulator> statistics_;  // null: not computed
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make_map_direction(int threads, const FeatureMap& from,
                                                         const FeatureMap& to,
                                                         const Kernels& kernels) {
  return std::make_unique<MapDirection>(threads, from, to, kernels);
}

}  // namespace lockstep::backend::cpu::winograd
