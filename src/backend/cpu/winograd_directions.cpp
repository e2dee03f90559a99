// SPDX-License-Identifier: BSD-3-Clause
#include <omp.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "division.hpp"
#include "fused_statistics.hpp"
#include "row_kernels.hpp"
#include "winograd.hpp"

namespace lockstep::backend::cpu::winograd {

namespace {

/// Tiles that a thread transforms at a time.
constexpr std::int64_t transform_tiles = 8;

Panels panels_of(std::int64_t entries, std::int64_t channels, int lanes) {
  return {.entries = entries, .panels = channels / panel_lanes(lanes), .vector_lanes = lanes};
}

std::string implementation_name(int lanes) {
  return "winograd 4x4 (" + std::to_string(lanes) + " lanes)";
}

/// Returns the ratio of multiplications to those of the direct algorithm: 1/4, or more if the tiles
/// extend beyond the map.
double arithmetic_of(const FeatureMap& map) {
  return static_cast<double>(frequencies * tiling_of(map).count) /
         static_cast<double>(9 * map.images * map.shape.pixels());
}

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
    if (blocks_.are_shared()) input_.data = arena.take<float>(input_.bytes());
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
      if (!direction.blocks_.are_shared()) input.data = own.take<float>(input.bytes());
      weights.data = own.take<float>(weights.bytes());
      products.data = own.take<float>(products.bytes());
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

/// Channels of the destination whose weight gradients a thread computes at once; their products
/// should stay in the L2 cache.
constexpr std::int64_t product_channels = 64;

/// Computes the gradient of the weights. If there are enough tiles, each thread adds up the
/// gradient of its own blocks, and the sums of the threads are added at the end. Otherwise all
/// threads share each block: they transform its maps together, and each of them computes some
/// channels.
class WeightsDirection : public ConvolutionDirection {
 public:
  WeightsDirection(int threads, const FeatureMap& source, const FeatureMap& destination)
      : ConvolutionDirection(implementation_name(lanes_for(source, destination)),
                             arithmetic_of(destination)),
        threads_(threads),
        source_(source),
        destination_(destination),
        tiling_(tiling_of(destination)),
        blocks_(tiling_, source.shape.channels + destination.shape.channels, threads,
                static_cast<std::int64_t>(weights_count() * sizeof(float))),
        input_(
            panels_of(blocks_.most_tiles(), source.shape.channels, lanes_for(source, destination))),
        gradient_(panels_of(blocks_.most_tiles(), destination.shape.channels, input_.vector_lanes)),
        products_(panels_of(std::min(product_channels, destination.shape.channels), input_.lanes(),
                            input_.vector_lanes)) {}

  std::size_t workspace_bytes() const override {
    const auto threads = static_cast<std::size_t>(threads_);
    return threads * own_bytes() +
           (blocks_.are_shared() ? block_bytes() : (threads - 1) * sum_bytes());
  }

  void bind(std::byte* workspace, float* flat, float* bias) override {
    ArenaAllocator arena(workspace);
    own_ = arena.take(static_cast<std::size_t>(threads_) * own_bytes());
    if (blocks_.are_shared()) take_block(arena, input_, gradient_);
    sums_ = arena.take(0);
    flat_ = flat;
    bias_ = bias;
  }

  void run() override {
#pragma omp parallel num_threads(threads_)
    {
#pragma omp for schedule(static)
      for (int part = 0; part < threads_; ++part) {
        const Memory memory(*this, part);
        std::fill_n(memory.bias, destination_.shape.channels, 0.0f);
        if (!blocks_.are_shared()) run_alone(part_of(blocks_.count(), part, threads_), memory);
      }
      if (blocks_.are_shared()) {
        const Memory memory(*this, omp_get_thread_num());
        for (std::int64_t block = 0; block < blocks_.count(); ++block) run_shared(block, memory);
      } else {
        add_sums();
      }
    }
    if (bias_ == nullptr) return;
    std::fill_n(bias_, destination_.shape.channels, 0.0f);
    for (int part = 0; part < threads_; ++part)
      add_into(Memory(*this, part).bias, bias_, destination_.shape.channels);
  }

 private:
  /// The memory that one thread uses. The gradient of the weights is that of the model if the
  /// threads share the blocks, and for the first part.
  struct Memory {
    Memory(const WeightsDirection& direction, int part)
        : input(direction.input_),
          gradient(direction.gradient_),
          products(direction.products_),
          weights(direction.flat_) {
      ArenaAllocator own(direction.own_ + static_cast<std::size_t>(part) * direction.own_bytes());
      bias = own.take<float>(direction.bias_bytes());
      products.data = own.take<float>(products.bytes());
      if (direction.blocks_.are_shared()) return;
      direction.take_block(own, input, gradient);
      if (part > 0) weights = direction.sum_of(part);
    }
    Panels input, gradient;  ///< transformed maps of a block
    Panels products;         ///< of some channels
    float* weights;
    float* bias;
  };

  std::size_t weights_count() const {
    return static_cast<std::size_t>(source_.shape.channels * destination_.shape.channels * 9);
  }
  std::size_t sum_bytes() const { return ArenaAllocator::aligned(weights_count() * sizeof(float)); }
  /// Returns the gradient of the weights of a part except the first.
  float* sum_of(int part) const {
    return reinterpret_cast<float*>(sums_ + static_cast<std::size_t>(part - 1) * sum_bytes());
  }
  std::size_t bias_bytes() const {
    return static_cast<std::size_t>(destination_.shape.channels) * sizeof(float);
  }
  std::size_t block_bytes() const {
    return ArenaAllocator::aligned(input_.bytes()) + ArenaAllocator::aligned(gradient_.bytes());
  }
  std::size_t own_bytes() const {
    const std::size_t always =
        ArenaAllocator::aligned(bias_bytes()) + ArenaAllocator::aligned(products_.bytes());
    return blocks_.are_shared() ? always : always + block_bytes();
  }
  void take_block(ArenaAllocator& arena, Panels& input, Panels& gradient) const {
    input.data = arena.take<float>(input.bytes());
    gradient.data = arena.take<float>(gradient.bytes());
  }
  std::int64_t tasks() const {
    return input_.panels * ceil_div(destination_.shape.channels, products_.entries);
  }

  void run_alone(Range blocks, const Memory& memory) const {
    for (std::int64_t block = blocks.first; block < blocks.last; ++block) {
      const TileRange tiles = blocks_.range(block);
      for (std::int64_t tile = 0; tile < tiles.count; tile += transform_tiles)
        transform(tiles, tile, memory);
      for (std::int64_t task = 0; task < tasks(); ++task)
        compute(task, tiles, block > blocks.first, memory);
    }
  }

  /// Called by all threads, which share the work; ends with a barrier.
  void run_shared(std::int64_t block, const Memory& memory) const {
    const TileRange tiles = blocks_.range(block);
#pragma omp for schedule(static)
    for (std::int64_t tile = 0; tile < tiles.count; tile += transform_tiles)
      transform(tiles, tile, memory);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < tasks(); ++task) compute(task, tiles, block > 0, memory);
  }

  /// Transforms the maps of some tiles of a block, from `tile` on.
  void transform(TileRange block, std::int64_t tile, const Memory& memory) const {
    const TileRange some{block.first + tile, std::min(transform_tiles, block.count - tile)};
    transform_input(source_, tiling_, some, memory.input, tile);
    transform_gradient(destination_, tiling_, some, memory.gradient, tile,
                       bias_ != nullptr ? memory.bias : nullptr);
  }

  /// Computes the gradient of the weights between one panel of the source and some channels of the
  /// destination, from the transformed tiles of a block. The rows of the products are channels of
  /// the destination, so that a thread writes long contiguous ranges.
  void compute(std::int64_t task, TileRange block, bool adds, const Memory& memory) const {
    const std::int64_t first = task / input_.panels * products_.entries;
    const std::int64_t panel = task % input_.panels;
    Panels products = memory.products;
    products.entries = std::min(products.entries, destination_.shape.channels - first);
    for (std::int64_t f = 0; f < frequencies; ++f) {
      for (std::int64_t k = 0; k < products.entries; k += products.lanes())
        multiply_transposed(memory.gradient, (first + k) / products.lanes(), memory.input, panel,
                            products, k, block.count, f);
    }
    transform_weight_gradient(products,
                              {.data = memory.weights,
                               .depth = destination_.shape.channels,
                               .depth_stride = source_.shape.channels * 9,
                               .lane_stride = 9},
                              first, panel, adds);
  }

  /// Adds the gradients of all parts. Called by all threads, which share the work.
  void add_sums() const {
    constexpr std::int64_t at_once = 4096;
    const auto count = static_cast<std::int64_t>(weights_count());
#pragma omp for schedule(static)
    for (std::int64_t first = 0; first < count; first += at_once) {
      for (int part = 1; part < threads_; ++part)
        add_into(sum_of(part) + first, flat_ + first, std::min(at_once, count - first));
    }
  }

  int threads_;
  const FeatureMap& source_;
  const FeatureMap& destination_;
  Tiling tiling_;
  TileBlocks blocks_;
  Panels input_, gradient_, products_;  // sizes; data of the first two if the threads share them
  std::byte* own_ = nullptr;            // memory of each thread
  std::byte* sums_ = nullptr;           // gradient of the weights of each part except the first
  float* flat_ = nullptr;
  float* bias_ = nullptr;
};

}  // namespace

std::unique_ptr<ConvolutionDirection> make(const ConvolutionProblem& problem, int threads) {
  const auto& [direction, sizes, source, destination] = problem;
  const std::int64_t sources = source.shape.channels, destinations = destination.shape.channels;
  switch (direction) {
    case Direction::forward:
      return std::make_unique<MapDirection>(
          threads, source, destination,
          Kernels{.depth = sources, .depth_stride = 9, .lane_stride = sources * 9});
    case Direction::backward_data:
      return std::make_unique<MapDirection>(threads, destination, source,
                                            Kernels{.depth = destinations,
                                                    .depth_stride = sources * 9,
                                                    .lane_stride = 9,
                                                    .rotated = true});
    case Direction::backward_weights: break;
  }
  return std::make_unique<WeightsDirection>(threads, source, destination);
}

}  // namespace lockstep::backend::cpu::winograd
